// Builds rows from rules such as "forward on this chunk, backward on that", micro-batch after
// micro-batch.

#pragma once

#include "runtime/schedule/plan.hpp"

namespace troupe::runtime::schedules {

/// The actions of one rank on one of its chunks. Each kind of action goes through the micro-batches
/// in ascending order; calls beyond the last micro-batch do nothing. Keeps a reference to the row.
class strand {
 public:
  strand(std::vector<action>& row, int microbatches, int chunk, int copy = 0)
      : row_(row), microbatches_(microbatches), chunk_(chunk_id(chunk)), copy_(copy_id(copy)) {}

  void forward() { add(action_kind::forward, forwards_++); }
  void backward() {
    add(action_kind::backward, inputs_++);
    ++weights_;
  }
  void input_gradients() { add(action_kind::input_gradients, inputs_++); }
  void weight_gradients() { add(action_kind::weight_gradients, weights_++); }

  int inputs() const { return inputs_; }
  int weights() const { return weights_; }
  bool has_weights_left() const { return weights_ < microbatches_; }

 private:
  void add(action_kind kind, int microbatch) {
    if (microbatch < microbatches_)
      row_.push_back({kind, chunk_, microbatch_id(microbatch), 0, copy_});
  }

  std::vector<action>& row_;
  int microbatches_;
  chunk_id chunk_;
  copy_id copy_;
  int forwards_ = 0, inputs_ = 0, weights_ = 0;
};

/// A forward and a backward as a pair.
inline void overlapped(std::vector<action>& row, strand& forward, strand& backward) {
  forward.forward();
  row.back().with_next = true;
  backward.backward();
}

}  // namespace troupe::runtime::schedules

// The choices of experts that a step has made so far, in all replicas: the counts of the global
// balance loss.
//
// Qiu et al.: "Demons in the Detail", 2025. Each replica adds the same micro-batch at the same
// time, so replicas meet in the forward pass of each router.

#pragma once

#include "runtime/collective/communicator.hpp"
#include "runtime/tensor/tensor.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace troupe::runtime {

/// How many of some rows chose each expert.
struct counted_choices {
  tensor counts = {};  ///< (E) u64
  double rows = 0;
};

/// One for each chunk of a worker, used by its lane.
class step_counts {
 public:
  /// `replicas` outlives the object. Null: there is one replica.
  explicit step_counts(communicator* replicas = nullptr) : replicas_(replicas) {}

  int replicas() const { return replicas_ == nullptr ? 1 : replicas_->size(); }

  void begin_step() { of_segment_.clear(); }

  /// Returns the counts of this micro-batch and, with `accumulates`, of all earlier ones of the
  /// step that this segment has added, in all replicas. `counts` (.., E) u64: this replica's, of
  /// `rows` rows. A collective of the replicas. Waits for the stream.
  counted_choices add(
      stream& by, int segment, const tensor& counts, std::int64_t rows, bool accumulates);

 private:
  struct sum {
    std::vector<std::uint64_t> counts = {};  ///< (E)
    std::int64_t rows = 0;
  };

  communicator* replicas_;
  std::map<int, sum> of_segment_;
};

}  // namespace troupe::runtime

// The tape: what one micro-batch did on one chunk, so that it can be undone for gradients.
//
// Operations are recorded in segments; a segment belongs to one unit of parameters. Backwards, a
// segment is asked for its input gradients (I) and, then or later, for its weight gradients (W):
// schedules need that split, and B is exactly I then W. What only I needs is freed by I, the rest
// by W.

#pragma once

#include "runtime/parameters/store.hpp"
#include "runtime/tensor/tensor.hpp"

#include <memory>
#include <vector>

namespace troupe::runtime {

/// The sum of what has come back so far for one variable.
struct gradient_slot {
  tensor sum;  ///< empty: nothing yet
};

/// A tensor on a tape. Copies are the same variable.
struct variable {
  tensor data;
  std::shared_ptr<gradient_slot> gradient = {};  ///< null: nobody will ask for its gradient
};

class tape;

/// One recorded operation. It keeps what its two gradients need and nothing else.
class node {
 public:
  virtual ~node() = default;

  /// Takes the gradient of the outputs, adds to the gradients of the inputs, frees what W does not
  /// need.
  virtual void input_gradients(tape& on) = 0;

  /// Adds to the gradients of the parameters. Most nodes have none.
  virtual void weight_gradients(tape&) {}
};

/// Used by one lane. A tape that does not record only runs forward.
class tape {
 public:
  tape(stream& on, parameter_store& store, bool recording)
      : stream_(on), store_(store), recording_(recording) {}

  stream& on() { return stream_; }
  bool recording() const { return recording_; }

  /// Everything until `leave` belongs to a new segment of `unit`, which is acquired meanwhile.
  void enter(int unit);
  void leave();

  /// Parameters of the current segment's unit.
  const float* value(int index) const { return store_.value(unit_, index); }
  float* gradient(int index) { return store_.gradient(unit_, index); }

  /// A new variable that gradients can come back to.
  variable make(tensor data) const;

  /// Keeps the node, when recording.
  void record(std::unique_ptr<node> x);

  /// Adds `part` to what has come back for `to`.
  void add(gradient_slot& to, tensor part);

  int segments() const { return int(segments_.size()); }
  void input_gradients(int segment);
  /// Once for each segment. After the last segment of a unit (in this backward order) the unit is
  /// emitted.
  void weight_gradients(int segment);

 private:
  struct segment {
    int unit = 0;
    bool i_done = false, w_done = false;
    std::vector<std::unique_ptr<node>> nodes = {};
  };

  stream& stream_;
  parameter_store& store_;
  bool recording_;
  int unit_ = -1;
  std::vector<segment> segments_;
};

}  // namespace troupe::runtime

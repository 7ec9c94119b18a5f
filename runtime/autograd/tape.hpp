// The tape: what one micro-batch did on one chunk, so that it can be undone for gradients.
//
// Operations are recorded in segments; a segment belongs to one unit of parameters. Backwards, a
// segment is asked for its input gradients (I) and, then or later, for its weight gradients (W):
// schedules need that split, and B is exactly I then W. What only I needs is freed by I, the rest
// by W. A segment may run without being recorded, and be recorded later, before its I
// (recomputation).

#pragma once

#include "kernels/op/kinds.hpp"
#include "runtime/collective/communicator.hpp"
#include "runtime/parameters/store.hpp"
#include "runtime/tensor/tensor.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace troupe::runtime {

/// The sum of what has come back so far for one variable. Where an activation made the variable, a
/// product that takes it may go back through that too, with its sums at hand: both may have come,
/// of several operations, and the one that made the variable adds them.
struct gradient_slot {
  tensor sum = {};                                         ///< of the variable; empty: nothing yet
  kernels::epilogue activation = kernels::epilogue::none;  ///< that made it
  tensor z = {};         ///< what the activation made it of, until its gradient is known
  tensor sum_of_z = {};  ///< of z; empty: nothing yet
};

/// How a variable lies along an axis. Operations check it (PLACEMENT-1): a reduction that is
/// missing, doubled or on the wrong side is found when the first micro-batch passes, with one rank
/// as with many.
enum class placement : std::uint8_t {
  replicated,                   ///< every rank has all of it, and all of its gradient
  sequence_sharded,             ///< each rank has its part of the rows (sequence parallelism)
  replicated_partial_gradient,  ///< every rank has all of it, and comes back with a part of the sum
                                ///< of its gradient
  feature_sharded,  ///< each rank has its part of the last dimension: features, heads, vocabulary
  partial,          ///< the sum over the ranks is meant; its gradient is whole
};

std::string_view to_string(placement x);

/// A tensor on a tape. Copies are the same variable.
struct variable {
  tensor data;
  std::shared_ptr<gradient_slot> gradient = {};  ///< null: nobody will ask for its gradient
  axis_map<placement> placements = {};
  tensor shard = {};  ///< this rank's rows, where `data` was gathered from everybody's
  bool kept = false;  ///< for recomputation: nobody may change `data` in place
};

class tape;

/// One recorded operation. It keeps what its two gradients need and nothing else.
class node {
 public:
  virtual ~node() = default;

  /// Takes the gradient of the outputs, adds to the gradients of the inputs, frees what W does not
  /// need.
  virtual void input_gradients(tape& tape) = 0;

  /// Adds to the gradients of the parameters. Most nodes have none.
  virtual void weight_gradients(tape&) {}
};

/// Where the gradient of a parameter goes: what an operation gives it is added to what is there or,
/// as the first of a step, written to all of it, whatever is there.
struct gradient_place {
  float* to = nullptr;  ///< null: there is no such parameter
  bool accumulates = true;
};

struct tape_settings {
  bool recording = true;
  axis_map<communicator*> groups = {};  ///< of each axis of the model; null: one rank
  bool sequence_parallel = false;
};

/// Used by one lane; stream, store and axis outlive it. A tape that does not record only runs
/// forward.
class tape {
 public:
  tape(runtime::stream& stream, parameter_store& store, const tape_settings& settings)
      : stream_(stream), store_(store), settings_(settings) {}

  runtime::stream& stream() { return stream_; }
  dtype type() const { return store_.type(); }
  bool recording() const { return settings_.recording && recording_now_; }

  int group_size(axis along = axis::tensor) const {
    const auto* const group = settings_.groups[along];
    return group == nullptr ? 1 : group->size();
  }
  int rank(axis along = axis::tensor) const {
    const auto* const group = settings_.groups[along];
    return group == nullptr ? 0 : group->rank();
  }
  communicator& group(axis along) {
    return *settings_.groups[along];
  }  ///< where group_size(along) > 1
  bool sequence_parallel() const { return settings_.sequence_parallel && group_size() > 1; }

  /// Everything until `end_segment` belongs to a new segment of `unit`, which is acquired
  /// meanwhile. Without `record` nothing is kept for it: `rerun_segment` must come before its
  /// gradients.
  void begin_segment(int unit, bool record = true);
  /// Everything until `end_segment` is recorded in a segment that ran without.
  void rerun_segment(int segment);
  void end_segment();

  /// Parameters of the current segment's unit.
  template <class T>
  const T* value(int index) const {
    return static_cast<const T*>(store_.value(unit_, index));
  }
  /// For who adds to single rows of it.
  float* gradient(int index) { return store_.gradient(unit_, index); }
  /// For who adds to all of it or writes all of it. `no_parameter` has none.
  gradient_place place_of_gradient(int index) {
    if (index < 0)
      return {};
    const bool first = store_.take_first_gradient(unit_, index);
    return {store_.gradient(unit_, index), !first};
  }

  /// A new variable that gradients can come back to.
  variable make(tensor data, const axis_map<placement>& placements) const;
  /// The same along the tensor axis, replicated along all others.
  variable make(tensor data, placement on_tensor_axis) const {
    return make(std::move(data), {{axis::tensor, on_tensor_axis}});
  }

  /// Keeps the node, when recording.
  void record(std::unique_ptr<node> x);
  /// A node without parameters, as a function: for operations of a user's own. What it holds is
  /// freed when it has run.
  void record(std::function<void(tape&)> input_gradients);

  /// Adds `part` to what has come back for `to`.
  void add(gradient_slot& to, tensor part) { add(to.sum, std::move(part)); }
  /// The same of any sum; takes the part itself where there is none yet.
  void add(tensor& sum, tensor part);

  int segments() const { return int(segments_.size()); }
  void input_gradients(int segment);
  /// Once for each segment. After the last segment of a unit (in this backward order) the unit is
  /// emitted.
  void weight_gradients(int segment);

 private:
  struct segment {
    int unit = 0;
    bool recorded = true;
    bool i_done = false, w_done = false;
    std::vector<std::unique_ptr<node>> nodes = {};
  };

  runtime::stream& stream_;
  parameter_store& store_;
  tape_settings settings_;
  bool recording_now_ = true;
  int unit_ = -1;
  int current_ = -1;
  std::vector<segment> segments_;
};

/// Broken promise PLACEMENT-1 unless x is placed as `wanted` along the axis; `by` is the operation.
void require_placement(const variable& x,
                       placement wanted,
                       std::string_view by,
                       axis along = axis::tensor);

}  // namespace troupe::runtime

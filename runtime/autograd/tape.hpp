// The tape: records the operations of one micro-batch on one chunk for the backward pass.
//
// Operations are recorded in segments; a segment belongs to one unit of parameters. The backward
// pass computes a segment's input gradients (I) and, at once or later, its weight gradients (W).
// Schedules need this split; B is I followed by W. I frees what only I needs, and W frees the rest.
// With recomputation, a segment runs without recording first and is recorded by a second run before
// its I.

#pragma once

#include "kernels/op/kinds.hpp"
#include "runtime/collective/communicator.hpp"
#include "runtime/parameters/store.hpp"
#include "runtime/tensor/tensor.hpp"

#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

namespace troupe::runtime {

/// The accumulated gradient of one variable. If a fused activation produced the variable, a product
/// that takes it may compute the gradient of z, the activation's input, directly. Both sums may be
/// present, from different operations; the producer of the variable combines them.
struct gradient_slot {
  tensor sum = {};  ///< gradient of the variable; empty: none yet
  kernels::epilogue activation = kernels::epilogue::none;  ///< that produced the variable
  tensor z = {};         ///< input of the activation; dropped once its gradient is known
  tensor sum_of_z = {};  ///< gradient of z; empty: none yet
};

/// Placement of a variable along an axis. Operations check it (PLACEMENT-1): a missing, duplicate
/// or misplaced reduction fails in the first micro-batch, even with one rank.
enum class placement : std::uint8_t {
  replicated,                   ///< every rank has the full value and the full gradient
  sequence_sharded,             ///< each rank has part of the rows (sequence parallelism)
  replicated_partial_gradient,  ///< every rank has the full value and a partial sum of its gradient
  feature_sharded,  ///< each rank has part of the last dimension: features, heads, vocabulary
  partial,          ///< the value is the sum over the ranks; the gradient is full
  routed,           ///< each rank has the rows that are sent to it (dispatch.hpp)
};

std::string_view to_string(placement x);

/// A tensor on a tape. Copies refer to the same variable.
struct variable {
  tensor data;
  std::shared_ptr<gradient_slot> gradient = {};  ///< null: no gradient is needed
  axis_map<placement> placements = {};
  tensor shard = {};  ///< this rank's rows, if `data` was gathered
  bool kept = false;  ///< for recomputation: `data` must not be changed in place
};

class tape;

/// One recorded operation. It keeps only what its gradients need.
class node {
 public:
  virtual ~node() = default;

  /// Takes the gradient of the outputs, adds to the gradients of the inputs, and frees what only I
  /// needs.
  virtual void input_gradients(tape& tape) = 0;

  /// Adds to the gradients of the parameters; most nodes have none.
  virtual void weight_gradients(tape&) {}
};

/// Destination of a parameter's gradient. The operation adds to it, or overwrites all of it as the
/// first operation of a step.
struct gradient_place {
  float* to = nullptr;  ///< null: no such parameter
  bool accumulates = true;
};

struct tape_settings {
  bool recording = true;
  axis_map<communicator*> groups = {};  ///< per axis of the model; null: one rank
  bool sequence_parallel = false;
};

/// Used by one lane. Stream, store and communicators must outlive it. A tape that does not record
/// runs the forward pass only.
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
  }  ///< only if group_size(along) > 1
  bool sequence_parallel() const { return settings_.sequence_parallel && group_size() > 1; }

  /// Starts a segment of `unit` that ends with `end_segment`; the unit stays acquired meanwhile.
  /// Without `record` it keeps nothing: call `rerun_segment` before its gradients.
  void begin_segment(int unit, bool record = true);
  /// Records a segment that ran without recording; ends with `end_segment`.
  void rerun_segment(int segment);
  void end_segment();

  /// Value of a parameter of the current segment's unit: float if it has keep_f32, otherwise of
  /// type(). Breaks STORE-10 for another T.
  template <class T>
  const T* value(int index) const {
    require_type(index, dtype_of<T>());
    return static_cast<const T*>(store_.value(unit_, index));
  }
  /// False if these parameters of one operation are frozen or `no_parameter`: it then accesses no
  /// gradient. Breaks TAPE-5 if only some are frozen.
  bool trains(std::initializer_list<int> parameters) const;
  /// Gradients of a parameter in this micro-batch: source s of its rows adds to number s.
  int sources(int index) const { return store_.sources(store_.entry_at(unit_, index)); }
  /// The gradient, for operations that add to single rows of it.
  float* gradient(int index) { return store_.gradient(unit_, index); }
  /// The gradient, for operations that add to or write all of it. Null for `no_parameter`.
  gradient_place place_of_gradient(int index, int source = 0) {
    if (index < 0)
      return {};
    const bool first = store_.take_first_gradient(unit_, index, source);
    return {store_.gradient(unit_, index, source), !first};
  }

  /// A new variable. It has a gradient slot if its segment is recorded, now or by rerun_segment.
  variable make(tensor data, const axis_map<placement>& placements) const;
  /// Like `make` above, with this placement on the tensor axis and replicated on all others.
  variable make(tensor data, placement on_tensor_axis) const {
    return make(std::move(data), {{axis::tensor, on_tensor_axis}});
  }

  /// Keeps the node if the tape is recording.
  void record(std::unique_ptr<node> x);
  /// Records a node without parameters as a function, for a user's own operations. The function is
  /// destroyed after it has run.
  void record(std::function<void(tape&)> input_gradients);

  /// Adds `part` to the gradient of a variable.
  void add(gradient_slot& to, tensor part) { add(to.sum, std::move(part)); }
  /// Adds `part` to a sum, or moves it there if the sum is empty.
  void add(tensor& sum, tensor part);

  int segments() const { return int(segments_.size()); }
  void input_gradients(int segment);
  /// Call it once per segment. After the last segment of a unit, in backward order, the unit is
  /// emitted.
  void weight_gradients(int segment);

 private:
  void require_type(int index, dtype wanted) const;
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

/// Breaks promise PLACEMENT-1 unless x has the placement `wanted` along the axis; `by` is the
/// operation.
void require_placement(const variable& x,
                       placement wanted,
                       std::string_view by,
                       axis along = axis::tensor);

}  // namespace troupe::runtime

// A graph of operations on 4-dimensional tensors, and the plan that computes it.

#pragma once

#include "kernels/cudnn/descriptor.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace troupe::kernels::cudnn {

using four = std::array<std::int64_t, 4>;

/// Shape of a tensor; strides in elements.
struct layout {
  cudnnDataType_t type;
  four extents;
  four strides;
  std::int64_t alignment = 16;  ///< of the first element, in bytes
};

/// Contiguous and row-major.
layout contiguous(cudnnDataType_t type, const four& extents);

/// Properties of a plan.
struct plan_facts {
  std::size_t workspace = 0;  ///< bytes
  std::int64_t engine = 0;    ///< its index among the engines for the graph
  bool same_bits = true;      ///< cuDNN does not mark it as nondeterministic
};

/// An engine by its index among those for a graph, with settings (knobs); the rest keep their
/// defaults. The meaning of the numbers is only documented in NVIDIA's frontend.
struct engine_choice {
  std::int64_t engine;
  std::vector<std::pair<cudnnBackendKnobType_t, std::int64_t>> knobs;
};

/// A graph that is ready to run. Any thread; concurrent executions need separate handles.
class plan {
 public:
  const plan_facts& facts() const { return facts_; }
  /// Enqueues the plan on the handle's stream. `memory` is in the order in which the graph's stored
  /// tensors were created; the workspace has facts().workspace bytes.
  void execute(cudnnHandle_t handle, std::span<void* const> memory, void* workspace) const;

 private:
  friend class graph;
  explicit plan(descriptor made) : made_(std::move(made)) {}

  descriptor made_;
  plan_facts facts_;
  std::vector<std::int64_t> stored_, constants_;
  std::vector<float> values_;
};

/// Built by one thread; the results of the functions identify tensors.
class graph {
 public:
  using tensor = std::size_t;

  /// A tensor in device memory; its pointer is passed to `execute`.
  tensor stored(const layout& layout);
  tensor constant(float value);

  tensor matmul(tensor a, tensor b, const layout& out);
  void matmul(tensor a, tensor b, tensor out);
  /// Reduces the dimension that has extent 1 in `out`.
  tensor reduce(cudnnReduceTensorOp_t operation, tensor x, const layout& out);
  void reduce(cudnnReduceTensorOp_t operation, tensor x, tensor out);
  tensor pointwise(cudnnPointwiseMode_t mode, tensor x, std::optional<tensor> b, const layout& out);
  void pointwise(cudnnPointwiseMode_t mode, tensor x, std::optional<tensor> b, tensor out);
  /// Index of each element along a dimension, as int32.
  tensor index(tensor like, std::int64_t dimension);
  /// mode(a, b) as booleans.
  tensor compare(cudnnPointwiseMode_t mode, tensor a, tensor b);
  /// `where` ? x : other.
  tensor select(tensor x, tensor other, tensor where);
  /// Gives the elements of x another layout.
  tensor reshape(tensor x, const layout& out);

  const layout& of(tensor x) const { return layouts_[x]; }

  /// The first engine of cuDNN's heuristics that can be finalized. With `same_bits` it skips
  /// engines that cuDNN marks as nondeterministic. Throws not_supported.
  plan make_plan(const descriptor& device, bool same_bits);
  /// The chosen engine, which must be deterministic. Throws not_supported.
  plan make_plan(const descriptor& device, const engine_choice& choice);

 private:
  tensor add(const layout& layout, bool stored, bool constant);
  tensor passing(const layout& layout) { return add(layout, false, false); }
  struct point {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    std::optional<std::int64_t> axis = {};
  };
  void pointwise(const point& operation,
                 tensor x,
                 std::optional<tensor> b,
                 std::optional<tensor> where,
                 tensor out);
  descriptor described() const;
  std::vector<descriptor> candidates(const descriptor& all, const descriptor& device);
  /// `engine` belongs to `configuration`. Throws not_supported.
  plan finished(const descriptor& configuration,
                const descriptor& engine,
                const descriptor& device) const;

  std::vector<layout> layouts_;
  std::vector<descriptor> tensors_, parts_, operations_;
  std::vector<std::int64_t> stored_, constants_;
  std::vector<float> values_;
};

}  // namespace troupe::kernels::cudnn

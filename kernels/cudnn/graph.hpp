// A graph of operations on tensors of four dimensions, and the plan that computes it.

#pragma once

#include "kernels/cudnn/descriptor.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace troupe::kernels::cudnn {

using four = std::array<std::int64_t, 4>;

/// What a tensor looks like. Strides in elements.
struct layout {
  cudnnDataType_t type;
  four extents;
  four strides;
  std::int64_t alignment = 16;  ///< of its first element, in bytes
};

/// Contiguous, the last dimension fastest.
layout contiguous(cudnnDataType_t type, const four& extents);

/// How a plan was made: part of what is reported.
struct plan_facts {
  std::size_t workspace = 0;  ///< bytes
  std::int64_t engine = 0;    ///< its number among those for the graph
  bool same_bits = true;      ///< cuDNN does not say of it that bits differ from run to run
};

/// An engine by its number among those for a graph, with choices of its own; one that is not named
/// is the engine's. What the numbers mean NVIDIA says where its front end asks for them.
struct engine_choice {
  std::int64_t engine;
  std::vector<std::pair<cudnnBackendKnobType_t, std::int64_t>> knobs;
};

/// A graph made ready. Any thread; executions at the same time need a handle each.
class plan {
 public:
  const plan_facts& facts() const { return facts_; }
  /// Puts it on the handle's stream. `memory` in the order in which the graph's stored tensors were
  /// made; the workspace has facts().workspace bytes.
  void execute(cudnnHandle_t handle, std::span<void* const> memory, void* workspace) const;

 private:
  friend class graph;
  explicit plan(descriptor made) : made_(std::move(made)) {}

  descriptor made_;
  plan_facts facts_;
  std::vector<std::int64_t> stored_, constants_;
  std::vector<float> values_;
};

/// Built once by one thread. Tensors are named by what the functions return.
class graph {
 public:
  using tensor = std::size_t;

  /// In memory of the device, given when the plan is executed.
  tensor stored(const layout& layout);
  tensor constant(float value);

  tensor matmul(tensor a, tensor b, const layout& out);
  void matmul(tensor a, tensor b, tensor out);
  /// Over the dimension that `out` has only once.
  tensor reduce(cudnnReduceTensorOp_t operation, tensor x, const layout& out);
  void reduce(cudnnReduceTensorOp_t operation, tensor x, tensor out);
  tensor pointwise(cudnnPointwiseMode_t mode, tensor x, std::optional<tensor> b, const layout& out);
  void pointwise(cudnnPointwiseMode_t mode, tensor x, std::optional<tensor> b, tensor out);
  /// The number of each element along a dimension, as int32.
  tensor index(tensor like, std::int64_t dimension);
  /// Booleans: mode(a, b).
  tensor compare(cudnnPointwiseMode_t mode, tensor a, tensor b);
  /// x where `where`, else other.
  tensor select(tensor x, tensor other, tensor where);
  /// The same elements seen otherwise.
  tensor reshape(tensor x, const layout& out);

  const layout& of(tensor x) const { return layouts_[x]; }

  /// The heuristics' first engine that can be made ready; with `same_bits` only those of which
  /// cuDNN does not say that they give other bits each time. Throws not_supported.
  plan make_plan(const descriptor& device, bool same_bits);
  /// That engine, of which the choice says that it has the same bits each time. Throws
  /// not_supported.
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
  /// Throws not_supported. `engine`: of `configuration`.
  plan finished(const descriptor& configuration,
                const descriptor& engine,
                const descriptor& device) const;

  std::vector<layout> layouts_;
  std::vector<descriptor> tensors_, parts_, operations_;
  std::vector<std::int64_t> stored_, constants_;
  std::vector<float> values_;
};

}  // namespace troupe::kernels::cudnn

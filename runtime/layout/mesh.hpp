// The mesh: which rank stands where on which axis.
//
// Ranks are numbered as Megatron-LM numbers them: an order string names the axes, the leftmost
// varies fastest. "tp-cp-ep-dp-pp" is the default.

#pragma once

#include "runtime/layout/axis.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// One number for each axis: a position, or an extent.
using coordinates = axis_map<int>;

/// Ranks by the axes that one view of them has: that of layers (tensor, context, data, pipeline),
/// or that of experts (expert_tensor, expert, expert_data, pipeline).
class mesh {
 public:
  /// Axes that `extents` does not name have extent 1. Throws input_error for an extent below 1 or
  /// an order that does not name each axis once; axes of extent 1 may be left out.
  explicit mesh(std::initializer_list<std::pair<axis, int>> extents,
                std::string_view order = "tp-cp-ep-dp-pp");

  int size() const { return size_; }
  int extent(axis a) const { return extents_[a]; }
  const std::string& order() const { return order_; }
  coordinates at(int rank) const;
  int rank(const coordinates& at) const;

  /// The ranks that differ from `rank` in these axes only, ascending; `rank` included.
  std::vector<int> group(int rank, axis_set along) const;

  /// Every group along these axes, in the order of their first ranks.
  std::vector<std::vector<int>> groups(axis_set along) const;

 private:
  coordinates extents_;
  coordinates strides_ = {};
  int size_ = 1;
  std::string order_;
};

/// Data parallelism is what remains. Throws input_error unless tensor * context * pipeline divides
/// the world.
mesh make_mesh(
    int world, int tensor, int context, int pipeline, std::string_view order = "tp-cp-ep-dp-pp");

/// The same ranks as the layers of experts see them: no context axis, their own tensor axis, and
/// the data axis is what remains. The pipeline groups are the same. Throws input_error when this
/// cannot be.
///
/// Liu et al.: "MoE Parallel Folding", 2025.
mesh fold_experts(const mesh& dense, int expert, int expert_tensor);

}  // namespace troupe::runtime

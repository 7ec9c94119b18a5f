// The device mesh: maps each rank to its position on every axis, and back.
//
// Ranks are numbered as in Megatron-LM. An order string names the axes from fastest to slowest
// varying; the default is "tp-cp-ep-dp-pp".

#pragma once

#include "runtime/layout/axis.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// A position or an extent per axis.
using coordinates = axis_map<int>;

/// A grid of ranks over the axes of one view: dense layers (tensor, context, data, pipeline) or
/// expert layers (expert_tensor, expert, expert_data, pipeline).
class mesh {
 public:
  /// Axes missing in `extents` have extent 1. Throws input_error for an extent below 1, and for an
  /// order that does not name each axis exactly once. The order may leave out axes of extent 1.
  explicit mesh(std::initializer_list<std::pair<axis, int>> extents,
                std::string_view order = "tp-cp-ep-dp-pp");

  int size() const { return size_; }
  int extent(axis a) const { return extents_[a]; }
  const std::string& order() const { return order_; }
  coordinates at(int rank) const;
  int rank(const coordinates& at) const;

  /// All ranks that equal `rank` on every other axis, including `rank` itself, ascending.
  std::vector<int> group(int rank, axis_set along) const;

  /// All groups along these axes, in the order of their first ranks.
  std::vector<std::vector<int>> groups(axis_set along) const;

 private:
  coordinates extents_;
  coordinates strides_ = {};
  int size_ = 1;
  std::string order_;
};

/// Derives the data-parallel size. Throws input_error unless tensor * context * pipeline divides
/// the world size.
mesh make_mesh(
    int world, int tensor, int context, int pipeline, std::string_view order = "tp-cp-ep-dp-pp");

/// The mesh of the expert layers on the same ranks: no context axis, its own tensor axis, and a
/// derived data-parallel size. Its pipeline groups equal those of `dense`. Throws input_error if no
/// such mesh exists.
mesh fold_experts(const mesh& dense, int expert, int expert_tensor);

}  // namespace troupe::runtime

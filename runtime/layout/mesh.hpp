// The mesh: which rank stands where on which axis.
//
// Ranks are numbered as Megatron-LM numbers them: an order string names the axes, the leftmost
// varies fastest. "tp-cp-ep-dp-pp" is the default.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

enum class axis : std::uint8_t { tensor, context, expert, data, pipeline };
inline constexpr int axes = 5;

/// "tp", "cp", "ep", "dp", "pp".
std::string_view short_name(axis x);

/// One number for each axis: a position, or an extent.
using coordinates = std::array<int, axes>;

class mesh {
 public:
  /// Throws input_error for an extent below 1 or an order that does not name each axis once; axes
  /// of extent 1 may be left out.
  explicit mesh(const coordinates& extents, std::string_view order = "tp-cp-ep-dp-pp");

  int size() const { return size_; }
  int extent(axis x) const { return extents_[std::size_t(x)]; }
  coordinates at(int rank) const;
  int rank(const coordinates& at) const;

  /// The ranks that differ from `rank` in this axis only, in its order; `rank` included.
  std::vector<int> group(int rank, axis along) const;

  /// Every group of the axis, in the order of their first ranks.
  std::vector<std::vector<int>> groups(axis along) const;

 private:
  coordinates extents_;
  coordinates strides_ = {};
  int size_ = 1;
};

/// Data parallelism is what remains. Throws input_error unless tensor * context * pipeline divides
/// the world.
mesh make_mesh(
    int world, int tensor, int context, int pipeline, std::string_view order = "tp-cp-ep-dp-pp");

}  // namespace troupe::runtime

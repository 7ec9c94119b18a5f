// The mesh: which rank stands where on which axis.
//
// Ranks are numbered as Megatron-LM numbers them: an order string names the axes, the leftmost
// varies fastest. "tp-cp-ep-dp-pp" is the default.

#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

enum class axis : std::uint8_t { tensor, context, expert, data, pipeline };
inline constexpr int axes = 5;

/// "tp", "cp", "ep", "dp", "pp".
std::string_view short_name(axis x);

/// A set of axes: one, or several in braces.
class axis_set {
 public:
  constexpr axis_set(axis x) : bits_(std::uint8_t(1U << unsigned(x))) {}
  constexpr axis_set(std::initializer_list<axis> all) {
    for (const auto x : all)
      bits_ = std::uint8_t(bits_ | 1U << unsigned(x));
  }

  constexpr bool has(axis x) const { return (bits_ >> unsigned(x) & 1U) != 0; }

 private:
  std::uint8_t bits_ = 0;
};

/// One number for each axis: a position, or an extent.
using coordinates = std::array<int, axes>;

class mesh {
 public:
  /// Throws input_error for an extent below 1 or an order that does not name each axis once; axes
  /// of extent 1 may be left out.
  explicit mesh(const coordinates& extents, std::string_view order = "tp-cp-ep-dp-pp");

  int size() const { return size_; }
  int extent(axis x) const { return extents_[std::size_t(x)]; }
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

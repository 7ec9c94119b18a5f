// The axes along which ranks differ: a new one is a row of the table in axis.cpp.

#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace troupe::runtime {

/// Layers of experts see the same ranks along axes of their own: expert, expert_tensor and
/// expert_data in place of tensor, context and data. Liu et al.: "MoE Parallel Folding", 2025.
enum class axis : std::uint8_t {
  tensor,
  context,
  expert,
  expert_tensor,
  data,
  expert_data,
  pipeline,
  copy,  ///< of the model: DualPipe has two
};
inline constexpr std::size_t axes = 8;

/// How a view of the ranks uses an axis.
enum class axis_use : std::uint8_t {
  none,
  model,  ///< a replica's ranks differ along it: each answers for what it alone has
  data,   ///< replicas differ along it: gradients are summed
};

/// What is known of an axis.
struct axis_row {
  axis id;
  std::string_view name;        ///< "tp", "cp", "ep", "etp", "dp", "edp", "pp", "copy"
  std::string_view order_name;  ///< in a rank order: experts' own axes go by those they replace
  axis_use dense, experts;      ///< by layers, and by layers of experts
};

const std::array<axis_row, axes>& axis_table();

inline const axis_row& row_of(axis a) {
  return axis_table()[std::size_t(a)];
}
inline std::string_view short_name(axis a) {
  return row_of(a).name;
}

/// A set of axes: one, or several in braces.
class axis_set {
 public:
  constexpr axis_set(axis a) : bits_(std::uint8_t(1U << unsigned(a))) {}
  constexpr axis_set(std::initializer_list<axis> all) {
    for (const auto a : all)
      bits_ = std::uint8_t(bits_ | 1U << unsigned(a));
  }

  constexpr bool has(axis a) const { return (bits_ >> unsigned(a) & 1U) != 0; }

 private:
  std::uint8_t bits_ = 0;
};

/// One value for each axis; `T()` where none is given.
template <class T>
class axis_map {
 public:
  constexpr axis_map() = default;
  constexpr axis_map(std::initializer_list<std::pair<axis, T>> some) {
    for (const auto& [a, value] : some)
      (*this)[a] = value;
  }

  constexpr T& operator[](axis a) { return values_[std::size_t(a)]; }
  constexpr const T& operator[](axis a) const { return values_[std::size_t(a)]; }

  /// The same but for one axis.
  constexpr axis_map with(axis a, T value) const {
    auto out = *this;
    out[a] = std::move(value);
    return out;
  }

  friend constexpr auto operator<=>(const axis_map&, const axis_map&) = default;

 private:
  std::array<T, axes> values_ = {};
};

/// A rank on an axis, and how many there are.
struct axis_rank {
  int rank = 0, size = 1;

  friend bool operator==(const axis_rank&, const axis_rank&) = default;
};
using axis_ranks = axis_map<axis_rank>;

}  // namespace troupe::runtime

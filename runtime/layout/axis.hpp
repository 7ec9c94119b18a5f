// The parallelism axes along which ranks differ. A new axis is a row of the table in axis.cpp.

#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace troupe::runtime {

/// Expert layers see the same ranks along expert, expert_tensor and expert_data in place of tensor,
/// context and data. Liu et al.: "MoE Parallel Folding", 2025.
enum class axis : std::uint8_t {
  tensor,
  context,
  expert,
  expert_tensor,
  data,
  expert_data,
  pipeline,
  copy,  ///< copies of the model: DualPipe has two
};
inline constexpr std::size_t axes = 8;

/// The use of an axis by dense or expert layers.
enum class axis_use : std::uint8_t {
  none,
  model,     ///< splits the parameters of a replica: each rank owns a part of them
  sequence,  ///< splits the sequences of a replica: gradients are summed
  data,      ///< separates replicas: gradients are summed
};
constexpr bool splits_replica(axis_use x) {
  return x == axis_use::model || x == axis_use::sequence;
}
constexpr bool sums_gradients(axis_use x) {
  return x == axis_use::sequence || x == axis_use::data;
}

/// The axes of a parameter: those of dense layers, or those of experts.
enum class axis_view : std::uint8_t { dense, experts };
inline constexpr std::array axis_views = {axis_view::dense, axis_view::experts};

/// A value for the parameters of dense layers, and one for those of experts.
template <class T>
struct by_view {
  T dense = {}, experts = {};

  T& operator[](axis_view v) { return v == axis_view::dense ? dense : experts; }
  const T& operator[](axis_view v) const { return v == axis_view::dense ? dense : experts; }
  friend bool operator==(const by_view&, const by_view&) = default;
};

struct axis_row {
  axis id;
  std::string_view name;        ///< "tp", "cp", "ep", "etp", "dp", "edp", "pp", "copy"
  std::string_view order_name;  ///< in a rank order; expert axes share the names of dense axes
  std::string_view title;       ///< "tensor", in names of groups
  axis_use dense, experts;      ///< use in dense layers and in expert layers

  axis_use use(axis_view v) const { return v == axis_view::dense ? dense : experts; }
  bool splits_replica() const {
    return runtime::splits_replica(dense) || runtime::splits_replica(experts);
  }
  bool sums_gradients() const {
    return runtime::sums_gradients(dense) || runtime::sums_gradients(experts);
  }
};

const std::array<axis_row, axes>& axis_table();

inline const axis_row& row_of(axis a) {
  return axis_table()[std::size_t(a)];
}
inline std::string_view short_name(axis a) {
  return row_of(a).name;
}

/// A set of axes. Converts from one axis or from a list in braces.
class axis_set {
 public:
  constexpr axis_set() = default;
  constexpr axis_set(axis a) : bits_(1U << unsigned(a)) {}
  constexpr axis_set(std::initializer_list<axis> all) {
    for (const auto a : all)
      bits_ |= 1U << unsigned(a);
  }

  constexpr void add(axis a) { bits_ |= 1U << unsigned(a); }
  constexpr bool has(axis a) const { return (bits_ >> unsigned(a) & 1U) != 0; }
  constexpr bool is_empty() const { return bits_ == 0; }
  constexpr bool is_part_of(axis_set x) const { return (bits_ & ~x.bits_) == 0; }
  constexpr bool meets(axis_set x) const { return (bits_ & x.bits_) != 0; }

  friend constexpr auto operator<=>(const axis_set&, const axis_set&) = default;

 private:
  std::uint32_t bits_ = 0;
};
static_assert(axes <= 32, "axis_set has a bit for each axis");

/// The axes for which is(row) is true.
template <class Condition>
axis_set axes_where(const Condition& is) {
  axis_set out;
  for (const auto& row : axis_table())
    if (is(row))
      out.add(row.id);
  return out;
}

/// "dp"; of several axes "cp-dp".
std::string short_name(const axis_set& x);

/// One value per axis; default `T()`.
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

  /// A copy with one value replaced.
  constexpr axis_map with(axis a, T value) const {
    auto out = *this;
    out[a] = std::move(value);
    return out;
  }

  friend constexpr auto operator<=>(const axis_map&, const axis_map&) = default;

 private:
  std::array<T, axes> values_ = {};
};

/// A rank's position on an axis, and the number of ranks along it.
struct axis_rank {
  int rank = 0, size = 1;

  friend bool operator==(const axis_rank&, const axis_rank&) = default;
};
using axis_ranks = axis_map<axis_rank>;

}  // namespace troupe::runtime

// The members of an aggregate, in the order of their declaration.
//
//     with_members(x, [](auto&... members) { (print(members), ...); });
//
// The struct is the only list of its members: a new one takes part wherever this function is used.

#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace troupe::runtime {

/// A struct without constructors. std::array is left out: its elements are no members.
template <class Value>
concept aggregate = std::is_class_v<Value> && std::is_aggregate_v<Value> && !requires {
  typename Value::value_type;
};

/// Converts to any type, in unevaluated code.
struct any_member {
  template <class Member>
  operator Member() const;
};

/// Number of members: as many as an initialiser of the aggregate may have. An aggregate with a base
/// or an array of C is counted wrongly, and with_members does not compile for it.
template <class Value, class... Given>
constexpr std::size_t count_members() {
  if constexpr (requires { Value{Given{}..., any_member{}}; })
    return count_members<Value, Given..., any_member>();
  else
    return sizeof...(Given);
}

/// Returns use(x.first, x.second, ...).
template <class Value, class Use>
requires aggregate<std::remove_const_t<Value>>
decltype(auto) with_members(Value& x, Use&& use) {
  constexpr auto count = count_members<std::remove_const_t<Value>>();
  static_assert(count <= 20, "add a line below");
  // clang-format off
#define TROUPE_MEMBERS(number, ...) \
  if constexpr (count == number) { auto& [__VA_ARGS__] = x; return use(__VA_ARGS__); } else
  TROUPE_MEMBERS(1, a)
  TROUPE_MEMBERS(2, a, b)
  TROUPE_MEMBERS(3, a, b, c)
  TROUPE_MEMBERS(4, a, b, c, d)
  TROUPE_MEMBERS(5, a, b, c, d, e)
  TROUPE_MEMBERS(6, a, b, c, d, e, f)
  TROUPE_MEMBERS(7, a, b, c, d, e, f, g)
  TROUPE_MEMBERS(8, a, b, c, d, e, f, g, h)
  TROUPE_MEMBERS(9, a, b, c, d, e, f, g, h, i)
  TROUPE_MEMBERS(10, a, b, c, d, e, f, g, h, i, j)
  TROUPE_MEMBERS(11, a, b, c, d, e, f, g, h, i, j, k)
  TROUPE_MEMBERS(12, a, b, c, d, e, f, g, h, i, j, k, l)
  TROUPE_MEMBERS(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  TROUPE_MEMBERS(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
  TROUPE_MEMBERS(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
  TROUPE_MEMBERS(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
  TROUPE_MEMBERS(17, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)
  TROUPE_MEMBERS(18, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
  TROUPE_MEMBERS(19, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s)
  TROUPE_MEMBERS(20, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t)
  return use();
#undef TROUPE_MEMBERS
  // clang-format on
}

}  // namespace troupe::runtime

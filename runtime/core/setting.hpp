// The rows of a settings struct: one for each member. JSON, identities, names in errors and the
// tests of settings are made from them.
//
//     struct muon_settings {
//       double momentum = 0.95;
//       static constexpr auto fields() {
//         return std::tuple(row("momentum", &muon_settings::momentum).decides());
//       }
//     };
//
// SETTING-1: a struct with rows has one for each member, in the order of the members (numbers,
// enumerations and truth values in any order). It does not compile otherwise.

#pragma once

#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace troupe::runtime {

template <class Struct, class Value>
struct setting_row {
  const char* key;  ///< in JSON
  Value Struct::*member;
  const char* name = key;  ///< in errors and in the identity
  /// True if the value decides bits, and so is part of the identity; null: never.
  bool (*decides_bits)(const Struct&) = nullptr;
  bool travels = true;    ///< false: stays in its process, without JSON
  bool optional = false;  ///< JSON of older versions lacks it

  constexpr setting_row decides(bool (*when)(const Struct&) = [](const Struct&) { return true; }) {
    decides_bits = when;
    return *this;
  }
  constexpr setting_row named(const char* other) {
    name = other;
    return *this;
  }
  constexpr setting_row stays() {
    travels = false;
    return *this;
  }
  constexpr setting_row later() {
    optional = true;
    return *this;
  }
};

template <class Struct, class Value>
constexpr setting_row<Struct, Value> row(const char* key, Value Struct::*member) {
  return {key, member};
}

template <class Struct>
concept has_fields = requires {
  Struct::fields();
};

namespace detail {

/// Stands for the value of any member.
struct any_member {
  template <class Value>
  operator Value() const;
};

template <class Value>
using member_like = std::conditional_t<std::is_scalar_v<Value>, any_member, Value>;

/// True if the rows' members, and no more, initialize the struct.
template <class Struct, class... Value>
constexpr bool are_all_members(const std::tuple<setting_row<Struct, Value>...>&) {
  return requires {
    Struct{std::declval<member_like<Value>>()...};
  }
  &&!requires {
    Struct{std::declval<member_like<Value>>()..., any_member()};
  };
}

}  // namespace detail

/// Calls `visit` with each row, in order.
template <has_fields Struct, class Visitor>
constexpr void for_each_field(Visitor&& visit) {
  static_assert(detail::are_all_members(Struct::fields()), "SETTING-1: a member has no row");
  std::apply([&visit](const auto&... x) { (visit(x), ...); }, Struct::fields());
}

}  // namespace troupe::runtime

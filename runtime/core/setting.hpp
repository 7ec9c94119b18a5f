// The rows of a settings struct: one for each member. JSON, identities, names in errors and the
// tests of settings are made from them. Help and ranges are in the rows of flags, which bind to the
// members (actors/command/settings/, decision 0041).
//
//     struct muon_settings {
//       double momentum = 0.95;
//       static constexpr auto fields() {
//         return std::tuple(row("momentum", &muon_settings::momentum).decides());
//       }
//     };
//
// SETTING-1: a struct with rows has one for each member, each with a key and a name of its own. A
// visit of its rows does not compile otherwise.

#pragma once

#include "runtime/core/members.hpp"

#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace troupe::runtime {

template <class Struct>
concept has_fields = requires {
  Struct::fields();
};

/// A value that the identity can describe by itself.
template <class Value>
concept describable = has_fields<Value> || std::is_enum_v<Value> || std::is_arithmetic_v<
    Value> || std::is_same_v<Value, std::string>;

template <class Struct, class Value>
struct setting_row {
  const char* key;  ///< in JSON
  Value Struct::*member;
  const char* name = key;  ///< in errors and in the identity
  /// True if the value decides bits, and so is part of the identity. Null: it does not, or
  /// `identity` adds it without the row (model, data, devices).
  bool (*decides_bits)(const Struct&) = nullptr;
  bool travels = true;    ///< false: stays in its process, without JSON
  bool optional = false;  ///< JSON of older versions lacks it

  constexpr setting_row decides(bool (*when)(const Struct&)
                                = [](const Struct&) { return true; }) requires describable<Value> {
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

namespace detail {

template <class Struct, class A, class B>
constexpr bool collide(const setting_row<Struct, A>& a, const setting_row<Struct, B>& b) {
  if (std::string_view(a.key) == b.key || std::string_view(a.name) == b.name)
    return true;
  if constexpr (std::is_same_v<A, B>)
    return a.member == b.member;
  else
    return false;
}

/// True if each member has one row, and no two rows collide.
template <class Struct, class... Value>
constexpr bool are_all_members(const std::tuple<setting_row<Struct, Value>...>& rows) {
  const auto is_single = [&rows](const auto& one) {  // it collides with itself alone
    return std::apply([&one](const auto&... x) { return (int(collide(one, x)) + ...); }, rows) == 1;
  };
  return sizeof...(Value) == count_members<Struct>()
         && std::apply([&](const auto&... x) { return (is_single(x) && ...); }, rows);
}

}  // namespace detail

/// Calls `visit` with each row, in order.
template <has_fields Struct, class Visitor>
constexpr void for_each_field(Visitor&& visit) {
  static_assert(detail::are_all_members(Struct::fields()),
                "SETTING-1: a member has no row, or two");
  std::apply([&visit](const auto&... x) { (visit(x), ...); }, Struct::fields());
}

}  // namespace troupe::runtime

// The rows of a settings struct: one for each member, with its flag. JSON, identities, names in
// errors, the command line, its help and the tests of settings are made from them (decision 0041).
//
//     struct muon_settings {
//       double momentum = 0.95;
//       static constexpr auto fields() {
//         return std::tuple(row("momentum", &muon_settings::momentum)
//                               .decides()
//                               .flag({.name = "...", .type = "X", .range = real_range{0, 1}}));
//       }
//     };
//
// bound_setting.hpp binds them to an object.
//
// SETTING-1: a struct with rows has one for each member, each with a key and a name of its own. A
// visit of its rows does not compile otherwise.

#pragma once

#include "runtime/core/members.hpp"
#include "runtime/core/setting_flag.hpp"

#include <array>
#include <cstddef>
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

/// A member that has only a flag: its reader sets other members.
struct elsewhere {};

/// The values of an enumeration that a flag takes.
template <class Value>
struct setting_choices {
  std::array<Value, 8> values = {};
  std::size_t count = 0;
};
template <class Value>
requires(!std::is_enum_v<Value>) struct setting_choices<Value> {
};

template <class Struct, class Value>
struct setting_row {
  const char* key;  ///< in JSON
  Value Struct::*member;
  /// In errors and in the identity. Empty: the rows of the value are named as if they were here.
  const char* name = key;
  /// True if the value decides bits, and so is part of the identity. Null: it does not, or
  /// `identity` adds it without the row (model, data, devices).
  bool (*decides_bits)(const Struct&) = nullptr;
  bool travels = true;                     ///< false: stays in its process, without JSON
  bool optional = false;                   ///< JSON of older versions lacks it
  bool left_out = false;                   ///< JSON lacks it if it is the default
  bool training = false;                   ///< a model's parameters and function lack it
  std::array<setting_flag, 3> flags = {};  ///< the first without a name ends them
  setting_choices<Value> choices = {};

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
  /// With `later`: JSON of models without it stays as it was.
  constexpr setting_row sparse() {
    left_out = true;
    return *this;
  }
  /// A setting of training alone, or of the samples: it leaves the function of a model as it is.
  constexpr setting_row for_training() {
    training = true;
    return *this;
  }
  /// Adds a flag that Megatron-LM has, too. A second one is a toggle that chooses one value.
  constexpr setting_row flag(const setting_flag& columns) {
    std::size_t at = 0;
    while (flags.at(at).name != nullptr)
      ++at;
    flags[at] = columns;
    return *this;
  }
  /// Adds a flag that Megatron-LM does not have.
  constexpr setting_row own_flag(setting_flag columns) {
    columns.megatron = nullptr;
    return flag(columns);
  }
  /// The values of an enumeration that the flag takes, by their names.
  template <class... Some>
  constexpr setting_row one_of(Some... some) requires std::is_enum_v<Value> {
    choices = {{some...}, sizeof...(some)};
    return *this;
  }
  /// Told, if the value decides bits. A struct may say otherwise by its member `changed_at_resume`,
  /// and a flag for itself.
  constexpr at_resume resume_of(const setting_flag& x) const {
    if (x.resume)
      return *x.resume;
    if constexpr (requires { Struct::changed_at_resume; })
      return Struct::changed_at_resume;
    return decides_bits != nullptr ? at_resume::told : at_resume::free;
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

template <has_fields Struct>
inline constexpr auto rows_of = Struct::fields();

/// Calls `visit` with each row, in order. The rows are static.
template <has_fields Struct, class Visitor>
constexpr void for_each_field(Visitor&& visit) {
  static_assert(detail::are_all_members(rows_of<Struct>), "SETTING-1: a member has no row, or two");
  std::apply([&visit](const auto&... x) { (visit(x), ...); }, rows_of<Struct>);
}

}  // namespace troupe::runtime

// Encodes an aggregate as the JSON list of its members.

#pragma once

#include "runtime/core/json_text.hpp"
#include "runtime/core/members.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>

namespace troupe::runtime {

/// Encodes NaN and infinity as strings, because JSON has no such numbers.
inline nlohmann::json json_of_double(double x) {
  if (std::isfinite(x))
    return x;
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}
inline std::optional<double> double_of_json(const nlohmann::json& x) {
  if (x.is_number())
    return x.get<double>();
  if (x == "nan")
    return std::nan("");
  if (x == "inf" || x == "-inf")
    return x == "inf" ? HUGE_VAL : -HUGE_VAL;
  return std::nullopt;
}

/// Doubles of `Value` that the list contains as the integer of their 64 bits.
template <class Value>
inline constexpr std::array<double Value::*, 0> listed_by_bits = {};

template <class Value>
bool is_by_bits(const Value& x, const double& member) {
  return std::ranges::any_of(listed_by_bits<Value>,
                             [&](auto which) { return &(x.*which) == &member; });
}

/// A list of aggregates. Empty ones at the end are left out, so a new one does not change the
/// encoding of a value without it.
template <class Member>
concept list_member = requires {
  requires aggregate<typename Member::value_type>;
};

/// A list of integers.
template <class Member>
concept list_of_integers = requires {
  requires std::is_integral_v<typename Member::value_type>;
  requires(!std::is_same_v<Member, std::string>);
};

template <class Value>
nlohmann::json json_list(const Value& x) {
  auto out = nlohmann::json::array();
  std::size_t empty = 0;  // lists at the end
  const auto add = [&]<class Member>(const Member& member) {
    if constexpr (list_member<Member>)
      empty = member.empty() ? empty + 1 : 0;
    else
      empty = 0;
    if constexpr (aggregate<Member>) {
      out.push_back(json_list(member));
    } else if constexpr (list_member<Member>) {
      auto& all = out.emplace_back(nlohmann::json::array());
      for (const auto& one : member)
        all.push_back(json_list(one));
    } else if constexpr (!std::is_same_v<Member, double>) {
      static_assert((!std::ranges::range<Member>)
                    || std::is_same_v<Member, std::string> || list_of_integers<Member>);
      out.push_back(member);
    } else if (is_by_bits(x, member)) {
      out.push_back(std::bit_cast<std::uint64_t>(member));
    } else {
      out.push_back(json_of_double(member));
    }
  };
  with_members(x, [&](const auto&... members) { (add(members), ...); });
  out.erase(out.end() - std::ptrdiff_t(empty), out.end());
  return out;
}

/// Empty if `from` is not a list of such members.
template <class Value>
std::optional<Value> value_of_json_list(const nlohmann::json& from) {
  Value out;
  const auto take = [&]<class Member>(const nlohmann::json& of, Member& member) {
    const auto set = [&](const auto& read) { return read && (member = Member(*read), true); };
    if constexpr (aggregate<Member>)
      return set(value_of_json_list<Member>(of));
    else if constexpr (list_member<Member>)
      return of.is_array() && std::ranges::all_of(of, [&](const auto& one) {
               const auto read = value_of_json_list<typename Member::value_type>(one);
               return read && (member.push_back(*read), true);
             });
    else if constexpr (list_of_integers<Member>)
      return of.is_array() && std::ranges::all_of(of, [&](const auto& one) {
               using integer = typename Member::value_type;
               const auto read = whole_number_in(one);
               return read && std::in_range<integer>(*read)
                      && (member.push_back(integer(*read)), true);
             });
    else if constexpr (std::is_same_v<Member, bool>)
      return of.is_boolean() && (member = of.get<bool>(), true);
    else if constexpr (std::is_same_v<Member, std::uint64_t>)
      return of.is_number_unsigned() && (member = of.get<std::uint64_t>(), true);
    else if constexpr (std::is_integral_v<Member>)
      return whole_number_in(of) && std::in_range<Member>(*whole_number_in(of))
             && (member = Member(*whole_number_in(of)), true);
    else if constexpr (std::is_same_v<Member, std::string>)
      return of.is_string() && (member = of.get<std::string>(), true);
    else if (is_by_bits(out, member))
      return of.is_number_unsigned()
             && (member = std::bit_cast<double>(of.get<std::uint64_t>()), true);
    else
      return set(double_of_json(of));
  };
  const bool good = from.is_array() && with_members(out, [&](auto&... members) {
                      std::size_t i = 0;
                      const auto next = [&]<class Member>(Member& member) {
                        return i < from.size() ? take(from[i++], member) : list_member<Member>;
                      };
                      return from.size() <= sizeof...(members) && (next(members) && ...);
                    });
  return good ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace troupe::runtime

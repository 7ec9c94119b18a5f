// Events for tests of the membership machine, and its orders.

#pragma once

#include "actors/supervisor/membership.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <string>
#include <variant>

namespace troupe::tests {

inline constexpr std::uint64_t second = 1'000'000'000;

inline actors::member_death death(runtime::generation_id of,
                                  const std::string& who = "replica:0",
                                  actors::death_cause cause = actors::death_cause::own) {
  return {.generation = of,
          .role = actors::member_role::rank,
          .who = who,
          .cause = cause,
          .why = who + ": it broke"};
}

inline actors::member_death death_of(actors::member_role role, const std::string& who) {
  auto x = death(runtime::make_generation(0, 1), who);
  x.role = role;
  return x;
}

/// A running first generation in which all ranks have kept `step`.
inline actors::membership running(actors::restart_limits limits, std::uint64_t step = 0) {
  actors::membership x(limits, 0, 0);
  x.begin();
  x.ready(x.generation());
  x.kept(step);
  return x;
}

inline actors::generation_remains holding(std::uint64_t oldest, std::uint64_t newest) {
  return {.newest = newest, .oldest = oldest};
}

template <class Order>
Order only(const actors::membership::orders& x) {
  REQUIRE(x.size() == 1);
  REQUIRE(std::holds_alternative<Order>(x.front()));
  return std::get<Order>(x.front());
}

inline const actors::restart_limits recovers{.on = true};

}  // namespace troupe::tests

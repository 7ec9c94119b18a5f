// Runs jobs that recover from planted deaths and compares them with an undisturbed run.

#pragma once

#include "tests/support/recovery_judge.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <map>
#include <string>

namespace troupe::tests {

/// The run without deaths; computed once per arrangement.
inline const lived& undisturbed(const arrangement& what) {
  static std::map<std::string, lived> known;
  const auto found = known.find(what.name);
  if (found != known.end())
    return found->second;
  const auto& out = known.emplace(what.name, live(what)).first->second;
  REQUIRE(look_at_whole(out, what.job) == sentences{});
  REQUIRE(out.restarts == 0);
  REQUIRE(out.events.empty());
  return out;
}

inline void check_same(const lived& x, const arrangement& what) {
  CHECK(look_at_whole(x, what.job) == sentences{});
  CHECK(look_at_same(x, undisturbed(what)) == sentences{});
}

/// Runs with the planted death and checks that the results equal the undisturbed run, with this
/// many restarts. Each restart must continue from the ranks' own states, unless these were not
/// complete yet. For a single death, also checks the logged event.
inline lived check_survives(const arrangement& what,
                            const std::string& death,
                            std::size_t restarts = 1) {
  auto x = live(what, death);
  check_same(x, what);
  CHECK(x.restarts == restarts);
  if (death.find(',') == std::string::npos && restarts == 1)
    CHECK(look_at_event(x, runtime::planted_death_from(death), x.iterations.front())
          == sentences{});
  const bool incomplete
      = death.find("@" + std::to_string(x.iterations.front()) + ":restore") != std::string::npos;
  for (const auto& event : x.events)
    if (event.contains("state_from") && !incomplete)
      CHECK(event["state_from"] == "estate");
  return x;
}

inline arrangement two_by_two() {
  return {"2x2", watched_job(tiny_job(2, 2))};
}

}  // namespace troupe::tests

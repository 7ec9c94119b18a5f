#include "actors/support/all_by_now.hpp"
#include "actors/support/reports.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

namespace {

struct report {
  std::uint64_t step = 0;
  int member = 0;
};

bool add(std::map<int, report>& to, const report& x) {
  return actors::complete(to, x, &report::member, 3, "REPORT-1: once each");
}

}  // namespace

TEST_CASE("a condition of all members is found without asking all of them each time", "[actors]") {
  constexpr std::size_t n = 1000;
  std::vector<bool> answered(n);
  std::size_t looks = 0;
  const actors::all_by_now all;
  const auto have_all = [&] {
    return all(n, [&](std::size_t i) {
      ++looks;
      return bool(answered[i]);
    });
  };
  for (std::size_t i = 0; i < n; ++i) {
    CHECK_FALSE(have_all());
    answered[i] = true;
  }
  CHECK(looks <= 2 * n);
  CHECK(have_all());
  answered[7] = false;  // one has to answer again
  CHECK_FALSE(have_all());
  answered[7] = true;
  CHECK(have_all());
  CHECK(actors::all_by_now()(0, [](std::size_t) { return false; }));
}

TEST_CASE("reports of a step are ordered by member when all have come", "[actors]") {
  std::map<int, report> reports;
  CHECK_FALSE(add(reports, {1, 2}));
  CHECK_FALSE(add(reports, {1, 0}));
  CHECK(add(reports, {1, 1}));
  for (const auto& [number, x] : reports)
    CHECK(number == x.member);
}

TEST_CASE("a report of another step and a second report of a member break their promise",
          "[actors]") {
  std::map<int, report> reports;
  CHECK_FALSE(add(reports, {1, 2}));
  CHECK_THROWS_WITH(add(reports, {2, 0}), ContainsSubstring("REPORT-1"));
  CHECK_THROWS_WITH(add(reports, {1, 2}), ContainsSubstring("REPORT-1"));
}

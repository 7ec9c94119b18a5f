#include "runtime/telemetry/expert_load.hpp"

#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <cstdint>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::WithinRel;

TEST_CASE("counts of ranks are added by unit, in any order", "[log]") {
  const expert_rows third{.unit = 3, .dropped = 1, .counts = {4, 0}},
      fifth{.unit = 5, .counts = {1, 2, 3}}, again{.unit = 3, .dropped = 2, .counts = {1, 6}};
  std::vector<expert_rows> one, other;
  add_to(one, {fifth, third});
  add_to(one, again);
  add_to(other, std::vector{again});
  add_to(other, {third, fifth});
  const expert_rows sum{.unit = 3, .dropped = 3, .counts = {5, 6}};
  CHECK(one == std::vector{sum, fifth});
  CHECK(other == one);
}

TEST_CASE("STEP-12: ranks count the rows of the same experts", "[log]") {
  std::vector<expert_rows> all = {{.unit = 3, .counts = {1, 2}}};
  CHECK_BREAKS("STEP-12", add_to(all, expert_rows{.unit = 3, .counts = {1, 2, 3}}));
  constexpr auto most = std::int64_t{1} << 44;
  CHECK_BREAKS("STEP-12", add_to(all, expert_rows{.unit = 4}));
  CHECK_BREAKS("STEP-12", add_to(all, expert_rows{.unit = 3, .counts = {1, -1}}));
  CHECK_BREAKS("STEP-12", add_to(all, expert_rows{.unit = 3, .counts = {1, most + 1}}));
  CHECK_BREAKS("STEP-12", add_to(all, expert_rows{.unit = 3, .dropped = -1, .counts = {1, 1}}));
  add_to(all, expert_rows{.unit = 3, .counts = {0, most}});
  const expert_rows sum{.unit = 3, .counts = {1, most + 2}};
  CHECK(all == std::vector{sum});
}

TEST_CASE("the load of a layer has extremes and entropy, and counts if they are requested",
          "[log]") {
  const expert_rows balanced{.unit = 1, .counts = {7, 7, 7, 7}};
  CHECK(load_of(balanced, "a", false)
        == expert_load{.layer = "a", .most = 7, .least = 7, .entropy = 1});
  const expert_rows uneven{.unit = 2, .dropped = 5, .counts = {4, 0, 4, 0}};
  const auto half = load_of(uneven, "b", true);
  CHECK(half.most == 4);
  CHECK(half.least == 0);
  CHECK(half.dropped == 5);
  CHECK(half.counts == uneven.counts);
  CHECK_THAT(half.entropy, WithinRel(0.5, 1e-12));
  CHECK(load_of({.counts = {0, 9}}, "", false).entropy == 0);
  CHECK(load_of({.counts = {0, 0}}, "", false).entropy == 0);
  CHECK(load_of({.counts = {9}}, "", false).entropy == 1);
  const auto both = load_of({load_of(balanced, "a", true), half});
  CHECK(both.layer.empty());
  CHECK(both.counts.empty());
  CHECK(both.most == 7);
  CHECK(both.least == 0);
  CHECK(both.dropped == 5);
  CHECK(both.entropy == half.entropy);
}

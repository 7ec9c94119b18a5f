// States of another process's ranks that a keeper holds.

#include "runtime/state/kept_states.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::runtime;

namespace {

const auto before = make_generation(0, 1), now = make_generation(0, 2);

rank_state state(std::uint64_t value) {
  return {.digests = {.own = {{"w", {0, value}}}}};
}
std::uint64_t value_of(const kept_states& x, int rank, std::uint64_t iteration) {
  const auto found = x.find(rank, iteration);
  return found ? found->digests.own.at("w").low : 0;
}
iteration_range at(std::uint64_t iteration) {
  return {iteration, iteration};
}
using steps = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("KEPT-1: a new state replaces the older of two", "[runtime][trainer]") {
  kept_states x;
  for (std::uint64_t n = 1; n <= 5; ++n) {
    x.put(now, 3, at(n), state(n));
    CHECK(value_of(x, 3, n) == n);
    CHECK((n == 1 || value_of(x, 3, n - 1) == n - 1));
    CHECK(value_of(x, 3, n - 2) == 0);
  }
  CHECK(x.iterations({3}) == steps{4, 5});
}

TEST_CASE("KEPT-1: after ranks went back, one complete state of theirs is always kept",
          "[runtime][trainer]") {
  kept_states x;
  x.put(before, 3, at(6), state(6));
  x.put(before, 3, at(7), state(7));
  for (std::uint64_t n = 6; n <= 9; ++n) {
    x.put(now, 3, at(n), state(10 + n));
    CHECK(value_of(x, 3, n) == 10 + n);
    if (n > 6)
      CHECK(value_of(x, 3, n - 1) == 10 + n - 1);
  }
}

TEST_CASE("KEPT-2: a step is kept once every rank has sent it in this generation",
          "[runtime][trainer]") {
  kept_states x;
  x.put(before, 0, at(7), state(1));
  x.put(before, 1, at(7), state(2));
  CHECK(x.has(before, {0, 1}, 7));
  x.put(now, 0, at(7), state(1));
  CHECK_FALSE(x.has(now, {0, 1}, 7));
  CHECK(x.iterations({0, 1}) == steps{7});  // the older complete step can be used meanwhile
  x.put(now, 1, at(7), state(2));
  CHECK(x.has(now, {0, 1}, 7));
  x.put(now, 0, at(8), state(3));
  CHECK_FALSE(x.has(now, {0, 1}, 8));
  CHECK(x.iterations({0, 1}) == steps{7});
}

TEST_CASE("a skipped step is kept with the state before it", "[runtime][trainer]") {
  kept_states x;
  x.put(now, 0, at(7), state(7));
  x.extend(now, 0, 8);
  CHECK(value_of(x, 0, 8) == 7);
  CHECK(x.iterations({0}) == steps{7, 8});
  x.extend(now, 0, 10);  // step 9 was never sent
  CHECK_FALSE(x.has(now, {0}, 10));
  x.extend(before, 0, 9);  // of another generation
  CHECK_FALSE(x.has(now, {0}, 9));
}

TEST_CASE("KEPT-2: later steps of an older generation are forgotten", "[runtime][trainer]") {
  kept_states x;
  x.put(before, 0, at(7), state(1));
  x.put(before, 0, at(8), state(2));
  x.put(now, 0, at(7), state(1));
  CHECK(x.iterations({0}) == steps{7});
  x.extend(now, 0, 8);  // this time step 8 was skipped
  CHECK(x.has(now, {0}, 8));
  CHECK(value_of(x, 0, 8) == 1);
}

TEST_CASE("a state is kept for each of the steps that ended in it", "[runtime][trainer]") {
  kept_states x;
  x.put(now, 0, {7, 9}, state(1));
  CHECK(x.has(now, {0}, 7));
  CHECK(x.iterations({0}) == steps{7, 8, 9});
}

TEST_CASE("KEEPER-3: states of other ranks are dropped once moved; later ones at once",
          "[runtime][trainer]") {
  kept_states x;
  for (const int rank : {0, 1, 2})
    for (const std::uint64_t n : {6, 7})
      x.put(before, rank, at(n), state(n));
  x.forget_others_after({1}, 6);
  CHECK(x.iterations({0}) == steps{6});
  CHECK(x.iterations({1}) == steps{6, 7});
  CHECK(x.iterations({2}) == steps{6});
  x.forget_others({1});
  CHECK(x.iterations({0}).empty());
  CHECK(x.iterations({1}) == steps{6, 7});
}

TEST_CASE("the ranks of a process need not be contiguous", "[runtime][trainer]") {
  kept_states x;
  for (const int rank : {0, 1, 2})
    x.put(before, rank, at(7), state(7));
  x.put(before, 2, at(8), state(8));
  CHECK(x.has(before, {0, 2}, 7));
  CHECK_FALSE(x.has(before, {0, 2}, 8));
  CHECK(x.ranks() == std::vector{0, 1, 2});
  x.forget_others({0, 2});
  CHECK(x.ranks() == std::vector{0, 2});
  CHECK(x.iterations({1}).empty());
  CHECK(x.iterations({0, 2}) == steps{7});
}

TEST_CASE("a state that also ends later steps stays for the step that the run goes back to",
          "[runtime][trainer]") {
  kept_states x;
  x.put(before, 0, {5, 7}, state(5));
  x.forget_others_after({1}, 6);
  CHECK(x.iterations({0}) == steps{5, 6});
}

#include "runtime/schedule/plan.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("1F1B warms up with as many forwards as stages follow", "[schedule]") {
  CHECK(to_csv(one_forward_one_backward(4, 4))
        == "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n"
           "1F0,1F1,1F2,1B0,1F3,1B1,1B2,1B3\n"
           "2F0,2F1,2B0,2F2,2B1,2F3,2B2,2B3\n"
           "3F0,3B0,3F1,3B1,3F2,3B2,3F3,3B3\n");
}

TEST_CASE("1F1B and forward-only plans are sound for every size", "[schedule]") {
  for (const int p : {1, 2, 3, 4, 8, 16})
    for (const int m : {1, 2, 3, 5, 8, 33}) {
      CHECK(complaints(one_forward_one_backward(p, m)).empty());
      CHECK(complaints(forward_only(p, m)).empty());
    }
}

TEST_CASE("an action dropped, doubled or misplaced is refused", "[schedule]") {
  const auto sound = one_forward_one_backward(2, 3);
  for (std::size_t r = 0; r < 2; ++r)
    for (std::size_t i = 0; i < sound.ranks[r].size(); ++i) {
      auto dropped = sound;
      dropped.ranks[r].erase(dropped.ranks[r].begin() + std::ptrdiff_t(i));
      CHECK_FALSE(complaints(dropped).empty());
      auto doubled = sound;
      doubled.ranks[r].push_back(sound.ranks[r][i]);
      CHECK_FALSE(complaints(doubled).empty());
      auto moved = sound;
      moved.ranks[1 - r].push_back(sound.ranks[r][i]);
      moved.ranks[r].erase(moved.ranks[r].begin() + std::ptrdiff_t(i));
      CHECK_FALSE(complaints(moved).empty());
    }
}

TEST_CASE("PLAN-3: ranks that wait for each other are named", "[schedule][invariant]") {
  auto x = one_forward_one_backward(2, 1);
  std::reverse(x.ranks[0].begin(), x.ranks[0].end());
  const auto found = complaints(x);
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0], ContainsSubstring("rank 0 waits at 0B0 for 0F0"));
  CHECK_THAT(found[0], ContainsSubstring("rank 1 waits at 1F0 for 0F0"));
}

TEST_CASE("PLAN-4: weight gradients out of order are refused", "[schedule][invariant]") {
  plan x{"swapped", 1, 2, true, {0}, {{}}};
  for (const auto& [kind, m] : {std::pair{action_kind::forward, 0},
                                {action_kind::forward, 1},
                                {action_kind::backward, 1},
                                {action_kind::backward, 0}})
    x.ranks[0].push_back({kind, chunk_id(0), microbatch_id(m)});
  const auto found = complaints(x);
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0], ContainsSubstring("PLAN-4"));
}

#include "runtime/schedule/plan.hpp"

#include "runtime/schedule/check.hpp"
#include "runtime/schedule/csv.hpp"

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

namespace {

/// 2 stages: the first forgets all of its 3 blocks, the second one of 2.
plan recomputed(plan x) {
  return with_recomputation(std::move(x), {{1, 1, 1}, {1, 0}});
}

/// Everything that is wrong, on a line.
std::string said(const plan& x) {
  std::string out;
  for (const auto& sentence : complaints(x))
    out += sentence + "\n";
  return out;
}

std::size_t find(const plan& x, std::size_t rank, const std::string& action) {
  for (std::size_t i = 0; i < x.ranks[rank].size(); ++i)
    if (to_string(x.ranks[rank][i]) == action)
      return i;
  FAIL(action << " is not in the plan");
  return 0;
}

}  // namespace

TEST_CASE("recomputation writes every B as its blocks, the last first, each R before its I",
          "[schedule]") {
  CHECK(to_csv(recomputed(one_forward_one_backward(2, 2)))
        == "0F0,0F1,0R0.2,0I0.2,0W0.2,0R0.1,0I0.1,0W0.1,0R0,0I0,0W0,"
           "0R1.2,0I1.2,0W1.2,0R1.1,0I1.1,0W1.1,0R1,0I1,0W1\n"
           "1F0,1I0.1,1W0.1,1R0,1I0,1W0,1F1,1I1.1,1W1.1,1R1,1I1,1W1\n");
}

TEST_CASE("recomputation splits I and W that stand apart", "[schedule]") {
  plan x{"apart", 1, 1, true, {0}, {{}}};
  for (const auto kind :
       {action_kind::forward, action_kind::input_gradients, action_kind::weight_gradients})
    x.ranks[0].push_back({kind, chunk_id(0), microbatch_id(0)});
  const auto seen = with_recomputation(x, {{1, 0}});
  CHECK(to_csv(seen) == "0F0,0I0.1,0R0,0I0,0W0.1,0W0\n");
  CHECK(said(seen).empty());
}

TEST_CASE("nothing to forget, or no way back, leaves a plan as it is", "[schedule]") {
  const auto x = one_forward_one_backward(2, 3);
  CHECK(with_recomputation(x, {{0}, {0}}) == x);
  const auto y = forward_only(2, 3);
  CHECK(with_recomputation(y, {{1, 1}, {1, 0}}) == y);
}

TEST_CASE("plans with recomputation are sound for every size", "[schedule]") {
  for (const int p : {1, 2, 4})
    for (const int m : {1, 3, 8})
      for (const int blocks : {1, 2, 5}) {
        std::vector<std::vector<char>> of(std::size_t(p),
                                          std::vector<char>(std::size_t(blocks), 1));
        of.back().back() = 0;
        const auto x = with_recomputation(one_forward_one_backward(p, m), of);
        CHECK(said(x).empty());
      }
}

TEST_CASE("an action of a block dropped, doubled, misplaced or renamed is refused", "[schedule]") {
  const auto sound = recomputed(one_forward_one_backward(2, 2));
  REQUIRE(said(sound).empty());
  for (std::size_t r = 0; r < 2; ++r)
    for (std::size_t i = 0; i < sound.ranks[r].size(); ++i) {
      CAPTURE(to_string(sound.ranks[r][i]));
      auto dropped = sound;
      dropped.ranks[r].erase(dropped.ranks[r].begin() + std::ptrdiff_t(i));
      CHECK_THAT(said(dropped), ContainsSubstring("PLAN-1"));
      auto doubled = sound;
      doubled.ranks[r].insert(doubled.ranks[r].begin() + std::ptrdiff_t(i), sound.ranks[r][i]);
      CHECK_THAT(said(doubled), ContainsSubstring("PLAN-1"));
      auto moved = sound;
      moved.ranks[1 - r].push_back(sound.ranks[r][i]);
      moved.ranks[r].erase(moved.ranks[r].begin() + std::ptrdiff_t(i));
      CHECK_THAT(said(moved), ContainsSubstring("PLAN-1"));
      if (sound.ranks[r][i].kind == action_kind::forward)
        continue;
      auto renamed = sound;
      renamed.ranks[r][i].block = 7;
      CHECK_THAT(said(renamed), ContainsSubstring("PLAN-1"));
    }
}

TEST_CASE("PLAN-1: R stands where its block is rebuilt and nowhere else", "[schedule][invariant]") {
  auto x = recomputed(one_forward_one_backward(2, 1));
  const auto at = find(x, 1, "1I0.1");
  x.ranks[1].insert(
      x.ranks[1].begin() + std::ptrdiff_t(at),
      {action_kind::recompute, chunk_id(1), microbatch_id(0), 1});  // of a block that kept all
  CHECK_THAT(said(x), ContainsSubstring("PLAN-1") && ContainsSubstring("R 0 times"));
  auto y = recomputed(one_forward_one_backward(2, 1));
  y.blocks[0][1] = 0;
  CHECK_THAT(said(y), ContainsSubstring("block 1") && ContainsSubstring("PLAN-1"));
}

TEST_CASE("PLAN-2: R comes before its I, and I after that of the next block",
          "[schedule][invariant]") {
  const auto sound = recomputed(one_forward_one_backward(2, 1));
  const auto swapped = [&](std::size_t rank, const std::string& a, const std::string& b) {
    auto x = sound;
    std::swap(x.ranks[rank][find(x, rank, a)], x.ranks[rank][find(x, rank, b)]);
    return said(x);
  };
  CHECK_THAT(swapped(0, "0R0.1", "0I0.1"), ContainsSubstring("waits at 0I0.1 for 0R0.1"));
  CHECK_THAT(swapped(0, "0I0.2", "0I0.1"), ContainsSubstring("waits at 0I0.1 for"));
  CHECK_THAT(swapped(0, "0I0", "0W0"), ContainsSubstring("waits at 0W0 for 0I0"));
  CHECK_THAT(swapped(1, "1F0", "1R0"), ContainsSubstring("waits at 1R0 for 1F0"));
  CHECK(swapped(0, "0W0.2", "0R0.1").empty());  // W may come later, R earlier
}

TEST_CASE("PLAN-3: the first block of one stage is what the last of another waits for",
          "[schedule][invariant]") {
  auto x = recomputed(one_forward_one_backward(2, 1));
  x.ranks[1].erase(x.ranks[1].begin() + std::ptrdiff_t(find(x, 1, "1I0")));
  x.ranks[1].push_back({action_kind::input_gradients, chunk_id(1), microbatch_id(0), 0});
  // Now W stands before I on rank 1, and rank 0 waits for that I.
  const auto text = said(x);
  CHECK_THAT(text, ContainsSubstring("rank 0 waits at 0I0.2 for 1I0"));
  CHECK_THAT(text, ContainsSubstring("rank 1 waits at 1W0 for 1I0"));
}

TEST_CASE("PLAN-4: weight gradients of each block come in order", "[schedule][invariant]") {
  plan x{"late", 1, 2, true, {0}, {{}}};
  const auto add = [&](action_kind kind, int m, int block = 0) {
    x.ranks[0].push_back({kind, chunk_id(0), microbatch_id(m), std::uint16_t(block)});
  };
  x.blocks = {{0, 0}};
  for (const int m : {0, 1}) {
    add(action_kind::forward, m);
    add(action_kind::input_gradients, m, 1);
    add(action_kind::input_gradients, m);
  }
  auto late = x;
  for (const auto& [m, block] : {std::pair{0, 1}, {1, 1}, {0, 0}, {1, 0}})
    add(action_kind::weight_gradients, m, block);
  CHECK(said(x).empty());
  x = late;
  for (const auto& [m, block] : {std::pair{0, 1}, {1, 0}, {0, 0}, {1, 1}})
    add(action_kind::weight_gradients, m, block);
  CHECK_THAT(said(x), ContainsSubstring("PLAN-4") && ContainsSubstring("0W1"));
}

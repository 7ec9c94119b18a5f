#include "runtime/schedule/check.hpp"

#include "runtime/schedule/lower.hpp"
#include "runtime/schedule/plan.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

constexpr auto F = action_kind::forward, B = action_kind::backward,
               I = action_kind::input_gradients, W = action_kind::weight_gradients;

action of(action_kind kind, int chunk, int m, int block = 0) {
  return {kind, chunk_id(chunk), microbatch_id(m), std::uint16_t(block)};
}

action paired(action x) {
  x.with_next = true;
  return x;
}

/// 2 stages: the first recomputes all of its 3 blocks, the second one of 2.
plan recomputed(plan x) {
  return with_recomputation(std::move(x), {{1, 1, 1}, {1, 0}});
}

/// All complaints, one per line.
std::string said(const plan& x, const check_settings& by = {}) {
  std::string out;
  for (const auto& sentence : check_plan(x, by).complaints)
    out += sentence + "\n";
  return out;
}

std::string noted(const plan& x) {
  const auto seen = check_plan(x);
  CHECK(seen.is_sound());
  std::string out;
  for (const auto& sentence : seen.notes)
    out += sentence + "\n";
  return out;
}

std::size_t find(const plan& x, std::size_t rank, const std::string& action) {
  for (std::size_t i = 0; i < x.ranks[rank].size(); ++i)
    if (to_string(x.ranks[rank][i], x.copies) == action)
      return i;
  FAIL(action << " is not in the plan");
  return 0;
}

/// Swaps two actions of a rank.
plan swapped(plan x, std::size_t rank, const std::string& a, const std::string& b) {
  std::swap(x.ranks[rank][find(x, rank, a)], x.ranks[rank][find(x, rank, b)]);
  return x;
}

plan without(plan x, std::size_t rank, const std::string& a) {
  x.ranks[rank].erase(x.ranks[rank].begin() + std::ptrdiff_t(find(x, rank, a)));
  return x;
}

}  // namespace

TEST_CASE("1F1B and forward-only plans are sound for every size", "[schedule]") {
  for (const int p : {1, 2, 3, 4, 8, 16})
    for (const int m : {1, 2, 3, 5, 8, 33}) {
      CHECK(validate(one_forward_one_backward(p, m)).empty());
      CHECK(validate(forward_only(p, m)).empty());
    }
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

TEST_CASE("an action dropped, duplicated or misplaced is refused", "[schedule]") {
  const auto sound = one_forward_one_backward(2, 3);
  for (std::size_t r = 0; r < 2; ++r)
    for (std::size_t i = 0; i < sound.ranks[r].size(); ++i) {
      auto dropped = sound;
      dropped.ranks[r].erase(dropped.ranks[r].begin() + std::ptrdiff_t(i));
      CHECK_FALSE(validate(dropped).empty());
      auto doubled = sound;
      doubled.ranks[r].push_back(sound.ranks[r][i]);
      CHECK_FALSE(validate(doubled).empty());
      auto moved = sound;
      moved.ranks[1 - r].push_back(sound.ranks[r][i]);
      moved.ranks[r].erase(moved.ranks[r].begin() + std::ptrdiff_t(i));
      CHECK_FALSE(validate(moved).empty());
    }
}

TEST_CASE("an action of a block dropped, duplicated, misplaced or renamed is refused",
          "[schedule]") {
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

TEST_CASE("PLAN-1: R occurs only where its block is recomputed", "[schedule][invariant]") {
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

TEST_CASE("PLAN-1: missing, duplicate and misplaced actions are named", "[schedule][invariant]") {
  const auto sound = one_forward_one_backward(2, 3);
  CHECK(said(without(sound, 1, "1B2")) == "PLAN-1: stage 1 lacks B of micro-batch 2\n");
  auto x = sound;
  x.ranks[0].push_back(of(B, 0, 1));
  CHECK(said(x)
        == "PLAN-1: stage 0 has F 1 times, B 2, R 0, I 0, W 0 of micro-batch 1; it needs F once, B "
           "once or I and W once each, and R 0 times\n");
  x = sound;
  x.ranks[0].push_back(of(F, 0, 7));
  CHECK(said(x)
        == "PLAN-1: 0F7 on rank 0 names a stage or micro-batch outside this step (2 stages, 3 "
           "micro-batches)\n");
  x = sound;
  std::swap(x.ranks[0], x.ranks[1]);
  CHECK_THAT(said(x), StartsWith("PLAN-1: 1F0 is on rank 0, but its stage is on rank 1\n"));
  x = sound;
  x.ranks[0][0].block = 1;
  CHECK_THAT(said(x), StartsWith("PLAN-1: 0F0.1 on rank 0: only R, B, I and W have a block\n"));
}

TEST_CASE("PLAN-1: a pair is an F with a B or I", "[schedule][invariant]") {
  const auto with_pair_at = [](std::size_t i) {
    auto x = one_forward_one_backward(2, 3);  // 0F0,0F1,0B0,0F2,0B1,0B2
    x.ranks[0][i].with_next = true;
    return said(x);
  };
  CHECK(with_pair_at(1).empty());
  CHECK(with_pair_at(2).empty());
  CHECK(with_pair_at(0)
        == "PLAN-1: 0F0 on rank 0 begins a pair, and a pair is an F and a B or I, side by side\n");
  CHECK_THAT(with_pair_at(4), StartsWith("PLAN-1: 0B1 on rank 0 begins a pair"));
  CHECK_THAT(with_pair_at(5), StartsWith("PLAN-1: 0B2 on rank 0 begins a pair"));
  auto three = one_forward_one_backward(2, 3);
  three.ranks[0][1].with_next = three.ranks[0][2].with_next = true;
  CHECK_THAT(said(three), StartsWith("PLAN-1: 0F1 on rank 0 begins a pair"));
}

TEST_CASE("PLAN-1: inconsistent sizes are reported before anything else", "[schedule][invariant]") {
  auto x = one_forward_one_backward(2, 3);
  x.placement.pop_back();
  CHECK(said(x) == "PLAN-1: every stage has a rank: 2 stages, 1 placed\n");
  x = one_forward_one_backward(2, 3);
  x.placement[1] = 2;
  CHECK(said(x) == "PLAN-1: stage 1 is on rank 2, but there are 2 ranks\n");
  x = one_forward_one_backward(2, 3);
  x.copies = 2;
  CHECK_THAT(said(x), StartsWith("PLAN-1: 3 micro-batches cannot be shared equally by 2 copies"));
  CHECK_THAT(said(plan{"none", 0, 0, true, {}, {}}), StartsWith("PLAN-1: a plan has at least one"));
}

TEST_CASE("huge numbers cost no time and no memory", "[schedule]") {
  plan x{"sparse", 1'000'000, 1'000'000, true, std::vector<int>(1'000'000, 0), {{of(F, 0, 0)}}};
  CHECK(said(x)
        == "PLAN-1: 1000000 stages and 1000000 micro-batches are 1000000000000 forwards, but the "
           "plan has 1 actions\n");
}

TEST_CASE("after some dozens, complaints are only counted", "[schedule]") {
  auto x = one_forward_one_backward(2, 25);
  std::swap(x.ranks[0], x.ranks[1]);  // 50 actions on each
  const auto all = validate(x);
  CHECK(all.size() == 25);
  CHECK(all.back() == "and 76 more like these");
}

TEST_CASE("PLAN-1: an action that many micro-batches lack is reported once",
          "[schedule][invariant]") {
  const auto sound = one_forward_one_backward(2, 512);
  auto x = sound;
  std::erase_if(x.ranks[1], [](const action& a) { return a.kind == B; });
  CHECK(said(x) == "PLAN-1: stage 1 lacks B of 512 micro-batches (0 to 511)\n");
  x = sound;
  x.ranks[0].clear();
  CHECK(said(x) == "PLAN-1: rank 0 does nothing: stage 0 lacks F and B of 512 micro-batches\n");
  x = sound;
  std::erase_if(x.ranks[0], [](const action& a) {
    const auto m = value(a.microbatch);
    return (a.kind == F && m % 2 == 1 && m < 40) || (m >= 7 && m < 10);
  });
  CHECK(said(x)
        == "PLAN-1: stage 0 lacks F and B of 3 micro-batches (7 to 9)\n"
           "PLAN-1: stage 0 lacks F of 18 micro-batches (1, 3, 5, 11, 13, 15, 17, 19, ...)\n");
  auto split = with_recomputation(one_forward_one_backward(1, 4), {{1, 0}});
  std::erase_if(split.ranks[0], [](const action& a) { return a.kind == W && a.block == 0; });
  CHECK(said(split) == "PLAN-1: stage 0 block 0 lacks W of 4 micro-batches (0 to 3)\n");
}

TEST_CASE("PLAN-2: an action follows its dependencies on its own rank", "[schedule][invariant]") {
  const auto sound = recomputed(one_forward_one_backward(2, 1));
  const auto turned = [&](std::size_t rank, const std::string& a, const std::string& b) {
    return said(swapped(sound, rank, a, b));
  };
  CHECK(turned(0, "0R0.1", "0I0.1")
        == "PLAN-2: on rank 0 0I0.1 comes before 0R0.1, which it needs\n");
  CHECK_THAT(turned(0, "0I0.2", "0I0.1"), ContainsSubstring("0I0.1 comes before 0I0.2"));
  CHECK_THAT(turned(0, "0I0", "0W0"), ContainsSubstring("0W0 comes before 0I0"));
  CHECK_THAT(turned(1, "1F0", "1R0"), ContainsSubstring("1R0 comes before 1F0"));
  CHECK(turned(0, "0W0.2", "0R0.1").empty());  // W can come later, and R earlier
  const auto whole = one_forward_one_backward(2, 2);
  CHECK_THAT(said(swapped(whole, 1, "1F0", "1B0")), ContainsSubstring("1B0 comes before 1F0"));
}

TEST_CASE("PLAN-2: adjacent chunks on a rank run in order", "[schedule][invariant]") {
  plan x{"v", 2, 1, true, {0, 0}, {{of(F, 0, 0), of(F, 1, 0), of(B, 1, 0), of(B, 0, 0)}}};
  CHECK(said(x).empty());
  CHECK_THAT(said(swapped(x, 0, "0F0", "1F0")), ContainsSubstring("1F0 comes before 0F0"));
  CHECK_THAT(said(swapped(x, 0, "0B0", "1B0")), ContainsSubstring("0B0 comes before 1B0"));
}

TEST_CASE("PLAN-2: a pair does not overlap its dependencies", "[schedule][invariant]") {
  plan x{"pair", 1, 1, true, {0}, {{paired(of(F, 0, 0)), of(B, 0, 0)}}};
  CHECK(said(x) == "PLAN-2: on rank 0 0B0 cannot overlap with 0F0, which it needs\n");
}

TEST_CASE("PLAN-3: a cycle of ranks that wait for each other is named", "[schedule][invariant]") {
  // Rank 0 needs its first gradient before it computes the activation that rank 1 needs first.
  auto x = one_forward_one_backward(2, 2);
  x.ranks[0] = {of(F, 0, 0), of(B, 0, 0), of(F, 0, 1), of(B, 0, 1)};
  x.ranks[1] = {of(F, 1, 0), of(F, 1, 1), of(B, 1, 0), of(B, 1, 1)};
  CHECK(said(x)
        == "PLAN-3: rank 0 waits at 0B0 for 1B0 of rank 1, which waits at 1F1 for 0F1 of rank 0\n");
}

TEST_CASE("PLAN-3: ranks that wait for a cycle are counted", "[schedule][invariant]") {
  auto x = one_forward_one_backward(4, 2);
  x.ranks[1] = {of(F, 1, 0), of(B, 1, 0), of(F, 1, 1), of(B, 1, 1)};
  x.ranks[2] = {of(F, 2, 0), of(F, 2, 1), of(B, 2, 0), of(B, 2, 1)};
  CHECK(said(x)
        == "PLAN-3: rank 1 waits at 1B0 for 2B0 of rank 2, which waits at 2F1 for 1F1 of rank 1; 2 "
           "other ranks wait for these\n");
}

TEST_CASE("PLAN-3: a long cycle is listed up to a dozen ranks", "[schedule][invariant]") {
  // A ring: each rank has two chunks and needs the later one first.
  constexpr int p = 20;
  plan x{"ring", 2 * p, 1, false, placed_in_turn(p, 2), {}};
  for (int r = 0; r < p; ++r)
    x.ranks.push_back({of(F, r + p, 0), of(F, r, 0)});
  // The row itself is wrong, too: chunk p needs chunk p - 1 of rank p - 1, which comes later.
  const auto text = said(x);
  CHECK_THAT(text,
             StartsWith("PLAN-3: rank 0 waits at 20F0 for 19F0 of rank 19, which waits at "
                        "39F0 for 38F0 of rank 18, which"));
  CHECK_THAT(text, ContainsSubstring(", and so on over 8 more ranks back to rank 0\n"));
}

TEST_CASE("PLAN-3: a pair waits for the inputs of both actions", "[schedule][invariant]") {
  plan x{"pair", 2, 2, true, {0, 1}, {{}, {}}};
  // 0F1 begins after the inputs of 0B0 are available, so 1F1 comes after 1B0.
  x.ranks[0] = {of(F, 0, 0), paired(of(F, 0, 1)), of(B, 0, 0), of(B, 0, 1)};
  x.ranks[1] = {of(F, 1, 0), of(B, 1, 0), of(F, 1, 1), of(B, 1, 1)};
  CHECK(said(x).empty());
  CHECK(said(swapped(x, 1, "1B0", "1F1"))
        == "PLAN-3: rank 0 waits at 0B0 for 1B0 of rank 1, which waits at 1F1 for 0F1 of rank 0\n");
}

TEST_CASE("PLAN-4: another order of weight gradients is sound, and is noted",
          "[schedule][invariant]") {
  plan x{"turned", 1, 2, true, {0}, {{of(F, 0, 0), of(F, 0, 1), of(B, 0, 1), of(B, 0, 0)}}};
  CHECK(noted(x)
        == "PLAN-4: weight gradients of stage 0 are added in the order 1, 0: the bits differ from "
           "those of other schedules\n");
  CHECK_FALSE(accumulates_in_order(x));
  const auto ascending = one_forward_one_backward(3, 8);
  CHECK(noted(ascending).empty());
  CHECK(accumulates_in_order(ascending));
}

TEST_CASE("PLAN-4: a note shows the place of a break in the order, and counts stages",
          "[schedule][invariant]") {
  plan x{"late", 3, 9, true, {0, 0, 0}, {{}}};
  for (const int c : {0, 1, 2})
    for (int m = 0; m < 9; ++m)
      x.ranks[0].push_back(of(F, c, m));
  for (const int c : {2, 1, 0})
    for (const int m : {0, 1, 2, 3, 5, 4, 6, 7, 8})
      x.ranks[0].push_back(of(B, c, m));
  CHECK(noted(x)
        == "PLAN-4: weight gradients of stage 2 are added in the order ..., 3, 5, 4, 6, 7, ... (and "
           "those of 2 more stages in such an order): the bits differ from those of other "
           "schedules\n");
}

TEST_CASE("PLAN-4: each block has its own order", "[schedule][invariant]") {
  plan x{"blocks", 1, 2, true, {0}, {{}}, {{0, 0}}};
  for (const int m : {0, 1})
    x.ranks[0].insert(x.ranks[0].end(), {of(F, 0, m), of(I, 0, m, 1), of(I, 0, m)});
  const auto with = [&](std::vector<action> w) {
    auto out = x;
    out.ranks[0].insert(out.ranks[0].end(), w.begin(), w.end());
    return out;
  };
  CHECK(accumulates_in_order(with({of(W, 0, 0, 1), of(W, 0, 1, 1), of(W, 0, 0), of(W, 0, 1)})));
  CHECK_FALSE(
      accumulates_in_order(with({of(W, 0, 0, 1), of(W, 0, 1), of(W, 0, 0), of(W, 0, 1, 1)})));
}

TEST_CASE("PLAN-4: two copies of the model are noted", "[schedule][invariant]") {
  plan x{"copies", 2, 2, true, {0, 1, 1, 0}, {{}, {}}, {}, 2};
  const auto in = [](action a, int copy) {
    a.copy = copy_id(copy);
    return a;
  };
  for (const int r : {0, 1})
    x.ranks[std::size_t(r)]
        = {in(of(F, 0, 0), r), in(of(F, 1, 0), 1 - r), in(of(B, 1, 0), 1 - r), in(of(B, 0, 0), r)};
  CHECK_THAT(noted(x), StartsWith("PLAN-4: 2 copies of the model add the gradients"));
  CHECK_FALSE(accumulates_in_order(x));
  CHECK_THAT(said(without(x, 0, "b1B0")),
             StartsWith("PLAN-1: copy b stage 1 lacks B of micro-batch 0"));
}

TEST_CASE("PLAN-5: each send meets its receive", "[schedule][invariant]") {
  const auto sound = lowered(one_forward_one_backward(2, 2));
  CHECK(said(sound).empty());
  CHECK(said(without(sound, 0, "0SEND_F1")) == "PLAN-5: 0SEND_F1 is in the plan 0 times, not 1\n");
  CHECK(said(without(sound, 0, "0RECV_B0")) == "PLAN-5: 0RECV_B0 is in the plan 0 times, not 1\n");
  auto x = sound;
  x.ranks[0].push_back(of(action_kind::send_gradient, 0, 0));
  CHECK(said(x) == "PLAN-5: 0SEND_B0 on rank 0 is a transfer without another rank\n");
}

TEST_CASE("PLAN-5: a link delivers in the order of its sends", "[schedule][invariant]") {
  plan x{"two", 2, 2, false, {0, 1}, {{}, {}}};
  x.ranks[0] = {of(F, 0, 0), of(F, 0, 1)};
  x.ranks[1] = {of(F, 1, 0), of(F, 1, 1)};
  x = lowered(x);
  CHECK(said(x).empty());
  auto turned = swapped(swapped(x, 1, "1RECV_F0", "1RECV_F1"), 1, "1F0", "1F1");
  CHECK(said(turned)
        == "PLAN-5: the link of rank 0 to rank 1 for activations delivers in the order of its "
           "sends: number 0 is for 1RECV_F0, and 1RECV_F1 waits for it\n");
}

TEST_CASE("PLAN-6: too short links are found, and the cycle is named", "[schedule][invariant]") {
  // Rank 0 sends all activations before it receives a gradient; rank 1 sends two gradients before
  // it receives the third activation.
  auto x = one_forward_one_backward(2, 4);
  x.ranks[0] = {of(F, 0, 0),
                of(F, 0, 1),
                of(F, 0, 2),
                of(F, 0, 3),
                of(B, 0, 0),
                of(B, 0, 1),
                of(B, 0, 2),
                of(B, 0, 3)};
  x.ranks[1] = {of(F, 1, 0),
                of(F, 1, 1),
                of(B, 1, 0),
                of(B, 1, 1),
                of(F, 1, 2),
                of(F, 1, 3),
                of(B, 1, 2),
                of(B, 1, 3)};
  CHECK(said(x).empty());
  CHECK(said(x, {.credits = 2}).empty());
  const auto found = said(x, {.credits = 1});
  CHECK(found
        == "PLAN-6: with room for 1 on each link, rank 0 waits at 0SEND_F3 for the credit of "
           "1RECV_F2 of rank 1, which waits at 1SEND_B1 for the credit of 0RECV_B0 of rank 0\n");
  CHECK(said(lowered(x), {.credits = 1}) == found);
  // An earlier receive of the same gradient resolves the deadlock.
  auto early = lowered(x);
  auto& row = early.ranks[0];
  const auto receive = find(early, 0, "0RECV_B0"), send = find(early, 0, "0SEND_F3");
  std::rotate(row.begin() + std::ptrdiff_t(send),
              row.begin() + std::ptrdiff_t(receive),
              row.begin() + std::ptrdiff_t(receive) + 1);
  CHECK(said(early, {.credits = 1}).empty());
}

TEST_CASE("1F1B is sound with a link of length one", "[schedule]") {
  for (const int p : {1, 2, 3, 8})
    CHECK(said(one_forward_one_backward(p, 9), {.credits = 1}).empty());
}

TEST_CASE("PLAN-7: a rank above its memory limit is named, with the action",
          "[schedule][invariant]") {
  const auto x = one_forward_one_backward(4, 8);
  CHECK(said(x, {.memory_limit = 4}).empty());
  CHECK(said(x, {.memory_limit = 3})
        == "PLAN-7: rank 0 holds up to 4, and its limit is 3: it is first above it at 0F3\n");
  CHECK_THAT(said(x, {.memory_limit = 2}), ContainsSubstring("PLAN-7: rank 1 holds up to 3"));
  CHECK(said(x, {.memory_limit = 1, .held = {{.25, .25}}}).empty());
  CHECK_THAT(said(x, {.memory_limit = 3, .held = {{2, 1}, {1, 1}, {1, 1}, {1, 1}}}),
             StartsWith("PLAN-7: rank 0 holds up to 8"));
}

TEST_CASE("PLAN-8: gradients are reduced once, after the last W", "[schedule][invariant]") {
  const auto sound = lowered(one_forward_one_backward(2, 2));
  CHECK(said(swapped(sound, 0, "0W1", "0REDUCE_GRAD"))
        == "PLAN-8: on rank 0 0W1 comes after the gradients of its stage were reduced\n");
  CHECK(said(without(sound, 0, "0REDUCE_GRAD"))
        == "PLAN-8: the gradients of stage 0 are reduced 0 times, not 1\n");
  auto x = sound;
  x.ranks[1].push_back(of(action_kind::reduce_gradients, 1, 0));
  CHECK(said(x) == "PLAN-8: the gradients of stage 1 are reduced 2 times, not 1\n");
}

TEST_CASE("a lowered plan is as sound as its source", "[schedule][lower]") {
  for (const int p : {1, 2, 4})
    for (const int m : {1, 3, 8}) {
      CHECK(said(lowered(one_forward_one_backward(p, m)), {.credits = 1}).empty());
      CHECK(said(lowered(forward_only(p, m)), {.credits = 1}).empty());
    }
}

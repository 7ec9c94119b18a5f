// Membership with ranks in several processes.

#include "actors/supervisor/membership.hpp"
#include "tests/actors/membership_events.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <optional>
#include <utility>
#include <vector>

using namespace troupe;
using namespace troupe::actors;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using runtime::make_generation;
using runtime::state_source;
using runtime::state_tier;
using runtime::step_id;

namespace {

/// Three processes with ranks; each is kept by the next one.
struct of_three {
  explicit of_three(std::uint32_t epoch = 0) : x(recovers, epoch, 0, {}, 3) {}

  /// Returns the order after the last process is ready.
  membership::orders all_stand(bool lived = false) {
    x.begin();
    membership::orders out;
    for (int p = 0; p < 3; ++p)
      for (auto& one : x.stands(p, 1, lived, second))
        out.push_back(std::move(one));
    return out;
  }
  void run(std::uint64_t step) {
    all_stand();
    x.ready(x.generation());
    x.kept(step);
  }
  membership::orders ended(int process,
                           std::vector<std::uint64_t> own,
                           std::vector<std::uint64_t> kept) {
    generation_remains remains;
    if (!own.empty())
      remains = holding(own.front(), own.back());
    remains.kept[(process + 2) % 3] = std::move(kept);
    return x.ended(x.generation(), process, remains, second);
  }

  membership x;
};

}  // namespace

TEST_CASE("MEMBER-1: the first generation is formed once every process is ready",
          "[actors][membership]") {
  membership x(recovers, 0, 40, {}, 2);
  const auto asked = x.begin();
  REQUIRE(asked.size() == 2);
  CHECK(std::get<order_start>(asked[1]).process == 1);
  CHECK(x.stands(1, 1, false, second).empty());
  CHECK(x.stands(1, 1, false, second).empty());  // a repeated report
  const auto form = only<order_form>(x.stands(0, 1, false, second));
  CHECK(form.generation == make_generation(0, 1));
  CHECK(form.sources == std::vector<state_source>(2, state_source{state_tier::start, step_id(40)}));
}

TEST_CASE("a dead process restarts from its keeper's copy of the state", "[actors][membership]") {
  of_three it;
  it.run(7);
  const auto first = it.x.generation();
  const auto orders = it.x.lost(1, 1, "process:1: killed", second);
  REQUIRE(orders.size() == 3);
  CHECK(orders[0] == membership_order{order_end{first, 0}});
  CHECK(orders[1] == membership_order{order_end{first, 2}});
  CHECK(orders[2] == membership_order{order_start{1}});
  CHECK(it.ended(0, {7, 8}, {6, 7}).empty());
  CHECK(it.x.stands(1, 2, false, second).empty());
  const auto form = only<order_form>(it.ended(2, {6, 7}, {7, 8}));
  CHECK(form.generation == make_generation(0, 2));
  CHECK(form.tier() == state_tier::keeper);
  CHECK(form.sources
        == std::vector<state_source>{{state_tier::estate, step_id(7)},
                                     {state_tier::keeper, step_id(7), 2},
                                     {state_tier::estate, step_id(7)}});
  CHECK(it.x.take_restarts().front().who == "process:1");
}

TEST_CASE("MEMBER-5: processes that die together count as one restart", "[actors][membership]") {
  constexpr int many = 8;
  membership x(recovers, 0, 0, {}, many);
  x.begin();
  const auto all_stand = [&](std::uint32_t incarnation) {
    membership::orders out;
    for (int p = 0; p < many; ++p)
      out = x.stands(p, incarnation, false, second);
    return out;
  };
  all_stand(1);
  x.ready(x.generation());
  x.kept(7);
  for (int p = 0; p < many; ++p)
    CHECK(std::holds_alternative<order_start>(x.lost(p, 1, "its host is gone", second).back()));
  CHECK(only<order_form>(all_stand(2)).tier() == state_tier::start);
  CHECK(x.take_restarts().size() == 1);
}

TEST_CASE("if a process and its keeper die together the run uses an older tier",
          "[actors][membership]") {
  of_three it;
  it.run(7);
  it.x.saved(4);
  it.x.lost(1, 1, "process:1: killed", second);
  it.x.lost(2, 1, "process:2: killed", second);
  it.x.stands(2, 2, false, second);
  it.ended(0, {6, 7}, {7});
  const auto form = only<order_form>(it.x.stands(1, 2, false, second));
  CHECK(form.sources == std::vector<state_source>(3, state_source{state_tier::disk, step_id(4)}));
}

namespace {

/// Processes 1 and 2 died together after step 7 and are ready again; the states of 1 are lost.
order_look after_both_died(of_three& it) {
  it.x.looks_at_disks(true);
  it.x.lost(1, 1, "process:1: killed", second);
  it.x.lost(2, 1, "process:2: killed", second);
  it.x.stands(2, 2, false, second);
  it.ended(0, {6, 7}, {7});
  return only<order_look>(it.x.stands(1, 2, false, second));
}

}  // namespace

TEST_CASE("if a process and its keeper die together the newer of local disk and checkpoint is used",
          "[actors][membership]") {
  const auto saved = GENERATE(0, 4, 5, 6);
  of_three it;
  it.run(7);
  if (saved > 0)
    it.x.saved(std::uint64_t(saved));
  const auto look = after_both_died(it);
  const auto form = only<order_form>(it.x.looked(look.number, stored_everywhere{5, {2, 0, 1}}));
  if (saved == 6) {
    CHECK(form.sources == std::vector<state_source>(3, state_source{state_tier::disk, step_id(6)}));
  } else {  // of equal steps, the local disk
    CHECK(form.tier() == state_tier::local);
    CHECK(form.sources
          == std::vector<state_source>{{state_tier::local, step_id(5), 2},
                                       {state_tier::local, step_id(5), 0},
                                       {state_tier::local, step_id(5), 1}});
  }
}

TEST_CASE("without local states the run uses the checkpoint, or its start",
          "[actors][membership]") {
  const bool saved = GENERATE(false, true);
  of_three it;
  it.run(7);
  if (saved)
    it.x.saved(4);
  const auto look = after_both_died(it);
  const auto form = only<order_form>(it.x.looked(look.number, std::nullopt));
  CHECK(form.tier() == (saved ? state_tier::disk : state_tier::start));
}

TEST_CASE("local disks are searched only if the newest state is lost", "[actors][membership]") {
  of_three it;
  it.x.looks_at_disks(true);
  it.run(7);
  it.x.lost(1, 1, "process:1: killed", second);
  it.ended(0, {7, 8}, {6, 7});
  it.x.stands(1, 2, false, second);
  CHECK(only<order_form>(it.ended(2, {6, 7}, {7, 8})).tier() == state_tier::keeper);
}

TEST_CASE("repeated failures search local disks before they use memory again",
          "[actors][membership]") {
  of_three it;
  it.x.looks_at_disks(true);
  it.run(7);
  it.x.saved(4);
  membership::orders last;
  for (std::uint32_t n = 1; n < 9; ++n) {
    it.x.lost(death(it.x.generation()), second);
    it.ended(0, {6, 7}, {6, 7});
    it.ended(1, {6, 7}, {6, 7});
    last = it.ended(2, {6, 7}, {6, 7});
    REQUIRE(last.size() == 1);
    if (std::holds_alternative<order_look>(last.front()))
      break;
    it.x.ready(it.x.generation());
  }
  const auto look = only<order_look>(last);
  CHECK(look.before == 7);
  const auto form = only<order_form>(it.x.looked(look.number, stored_everywhere{6, {2, 0, 1}}));
  CHECK(form.tier() == state_tier::local);
  CHECK(form.step() == step_id(6));
}

TEST_CASE("after a death during the search of disks the search is repeated",
          "[actors][membership]") {
  of_three it;
  it.run(7);
  const auto first = after_both_died(it);
  CHECK(first.before == std::nullopt);
  CHECK(it.x.take_restarts().size() == 1);
  // A late report about the ended generation.
  CHECK(it.x.lost(death(it.x.generation()), second).empty());
  CHECK_FALSE(it.x.cause());
  CHECK(only<order_start>(it.x.lost(2, 2, "process:2: killed", second)).process == 2);
  REQUIRE(it.x.cause());
  CHECK(it.x.cause()->who == "process:2");
  // An answer of the processes before.
  CHECK(it.x.looked(first.number, stored_everywhere{5, {2, 0, 1}}).empty());
  const auto again = only<order_look>(it.x.stands(2, 3, false, second));
  CHECK(again.number > first.number);
  const auto counted = it.x.take_restarts();
  REQUIRE(counted.size() == 1);
  CHECK(counted[0].who == "process:2");
  CHECK(it.x.looked(first.number, stored_everywhere{5, {2, 0, 1}}).empty());
  const auto form = only<order_form>(it.x.looked(again.number, stored_everywhere{5, {2, 0, 1}}));
  CHECK(form.step() == step_id(5));
  CHECK(it.x.looked(again.number, stored_everywhere{5, {2, 0, 1}}).empty());
}

TEST_CASE("MEMBER-2: the death of an older incarnation is ignored", "[actors][membership]") {
  of_three it;
  it.run(7);
  it.x.lost(1, 1, "process:1: killed", second);
  CHECK(it.x.lost(1, 1, "process:1: its connection is gone", second).empty());
  it.x.stands(1, 2, false, second);
  CHECK(it.x.lost(1, 1, "process:1: its connection is gone", second).empty());
  CHECK(it.x.stands(1));
}

TEST_CASE("MEMBER-4: the death of a process is the cause of its peers' reports",
          "[actors][membership]") {
  of_three it;
  it.run(7);
  const auto first = it.x.generation();
  it.x.lost(death(first, "replica:0", death_cause::peer), second);
  CHECK(only<order_start>(it.x.lost(1, 1, "process:1: killed", second)).process == 1);
  REQUIRE(it.x.cause());
  CHECK(it.x.cause()->who == "process:1");
}

TEST_CASE("MEMBER-5: the death of a process before a repeated step counts as a failure",
          "[actors][membership]") {
  of_three it;
  it.run(7);
  auto again = death(it.x.generation(), "step 8");
  again.runs_again = true;
  CHECK(it.x.lost(again, second).size() == 3);
  CHECK(only<order_start>(it.x.lost(1, 1, "process:1: killed", second)).process == 1);
  REQUIRE(it.x.cause());
  CHECK(it.x.cause()->who == "process:1");
  it.ended(0, {7, 8}, {6, 7});
  it.x.stands(1, 2, false, second);
  only<order_form>(it.ended(2, {6, 7}, {7, 8}));
  CHECK(it.x.take_restarts().size() == 1);
}

TEST_CASE("MEMBER-5: a process that dies after each start ends the run", "[actors][membership]") {
  of_three it;
  it.run(7);
  membership::orders last = it.x.lost(1, 1, "process:1: killed", second);
  for (std::uint32_t n = 2; n < 9 && it.x.now() != membership::phase::stopped; ++n) {
    it.x.stands(1, n, false, second);
    last = it.x.lost(1, n, "process:1: killed", second);
  }
  CHECK_THAT(only<order_stop>(last).why, ContainsSubstring("the cause persists"));
}

TEST_CASE("a successor uses the newest kept step, committed or the one before",
          "[actors][membership]") {
  const bool newest = GENERATE(false, true);
  of_three it(1);
  it.x.kept(12);
  const auto orders = it.all_stand(true);
  REQUIRE(orders.size() == 3);
  const auto before = std::get<order_end>(orders[0]).last;
  CHECK(before == make_generation(1, 0));
  const auto answer
      = [&](int p, generation_remains x) { return it.x.ended(before, p, std::move(x), second); };
  answer(0, holding(11, 12));
  answer(1, newest ? holding(12, 13) : generation_remains{});
  auto keeper = holding(11, 12);
  keeper.kept[1] = {10, 11};
  const auto form = only<order_form>(answer(2, keeper));
  CHECK(form.generation == make_generation(1, 1));
  CHECK(form.step() == step_id(newest ? 12 : 11));
}

TEST_CASE("MEMBER-3: a successor also knows the initial tier of the run", "[actors][membership]") {
  membership x(recovers, 1, 3);
  x.kept(12);
  x.begin();
  // A rank lost its state, and there is no checkpoint.
  const auto form = only<order_form>(x.ended(make_generation(1, 0), 0, {}, second));
  CHECK(form.sources.at(0) == state_source{state_tier::start, step_id(3)});
}

TEST_CASE("MEMBER-5: the move of a process does not count as a failure", "[actors][membership]") {
  membership x({.on = true, .most = 1}, 0, 0, {}, 2);
  x.begin();
  x.stands(0, 1, false, second);
  only<order_form>(x.stands(1, 1, false, second));
  for (std::uint32_t incarnation = 1; incarnation <= 5; ++incarnation) {
    x.ready(x.generation());
    const auto orders
        = x.lost(1, incarnation, "process:1: host b has room for it", second, process_loss::moves);
    REQUIRE(orders.size() == 2);
    CHECK(std::get<order_end>(orders[0]).process == 0);
    CHECK(std::get<order_start>(orders[1]).process == 1);
    auto left = holding(0, 0);
    left.kept[1] = {0};
    x.ended(x.generation(), 0, left, second);
    const auto form = only<order_form>(x.stands(1, incarnation + 1, false, second));
    CHECK(form.sources[1] == state_source{state_tier::keeper, step_id(0), 0});
  }
  CHECK(x.take_restarts().empty());
}

TEST_CASE("MEMBER-4: a death during the move of another process is reported and counted",
          "[actors][membership]") {
  membership x(recovers, 0, 0, {}, 3);
  x.begin();
  for (int p = 0; p < 3; ++p)
    x.stands(p, 1, false, second);
  x.ready(x.generation());
  x.lost(1, 1, "process:1: host b has room for it", second, process_loss::moves);
  x.lost(2, 1, "process:2: killed", second);
  REQUIRE(x.cause());
  CHECK(x.cause()->who == "process:2");
  x.stands(1, 2, false, second);
  x.stands(2, 2, false, second);
  only<order_form>(x.ended(x.generation(), 0, holding(0, 0), second));
  const auto counted = x.take_restarts();
  REQUIRE(counted.size() == 1);
  CHECK(counted[0].who == "process:2");
}

TEST_CASE("a process with wrong bits is ordered on another host", "[actors][membership]") {
  membership x(recovers, 0, 0, {}, 2);
  x.begin();
  x.stands(0, 1, false, second);
  x.stands(1, 1, false, second);
  x.ready(x.generation());
  const auto orders = x.lost(1, 1, "process:1: STEP-2", second, process_loss::wrong_bits);
  CHECK(orders.back() == membership_order{order_start{1, true}});
  CHECK(x.cause()->wrong_bits);
}

// The membership machine: events in, orders out, without actors.

#include "actors/supervisor/membership.hpp"

#include "tests/actors/membership_events.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using namespace troupe::actors;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using runtime::make_generation;
using runtime::state_source;
using runtime::state_tier;
using runtime::step_id;

TEST_CASE("the first supervisor forms the first generation at once", "[actors][membership]") {
  membership x(recovers, 0, 40);
  const auto order = only<order_form>(x.begin());
  CHECK(order.generation == make_generation(0, 1));
  CHECK(order.sources.at(0) == state_source{state_tier::start, step_id(40)});
  CHECK(x.now() == membership::phase::forming);
  x.ready(order.generation);
  CHECK(x.now() == membership::phase::running);
}

TEST_CASE("MEMBER-1: after a death the generation ends, and then the next is formed",
          "[actors][membership]") {
  auto x = running(recovers, 7);
  const auto first = x.generation();
  CHECK(only<order_end>(x.lost(death(first), second)).last == first);
  CHECK(x.now() == membership::phase::ending);
  CHECK(x.ended(make_generation(0, 9), 0, holding(6, 7), second).empty());  // of another generation
  const auto order = only<order_form>(x.ended(first, 0, holding(6, 7), second));
  CHECK(order.generation == make_generation(0, 2));
  CHECK(order.sources.at(0) == state_source{state_tier::estate, step_id(7)});
}

TEST_CASE("MEMBER-2: events of an older generation are ignored", "[actors][membership]") {
  auto x = running(recovers, 7);
  const auto first = x.generation();
  x.lost(death(first), second);
  x.ended(first, 0, holding(7, 8), second);
  const auto next = x.generation();
  CHECK(x.lost(death(first), second).empty());
  x.ready(first);
  CHECK(x.now() == membership::phase::forming);
  x.ready(next);
  CHECK(x.lost(death(first), second).empty());
  CHECK(x.ended(first, 0, holding(7, 8), second).empty());
  CHECK(x.now() == membership::phase::running);
}

TEST_CASE("MEMBER-3: the run goes back to the newest step that all ranks kept, or to an older tier",
          "[actors][membership]") {
  auto x = running(recovers, 7);
  const auto first = x.generation();
  x.lost(death(first), second);
  SECTION("newer steps of some ranks are undone") {
    x.saved(4);
    const auto order = only<order_form>(x.ended(first, 0, holding(7, 8), second));
    CHECK(order.sources.at(0) == state_source{state_tier::estate, step_id(7)});
  }
  SECTION("a rank lost its state: the checkpoint") {
    x.saved(4);
    const auto order = only<order_form>(x.ended(first, 0, {}, second));
    CHECK(order.sources.at(0) == state_source{state_tier::disk, step_id(4)});
    CHECK(x.kept() == 4);
  }
  SECTION("without a checkpoint: the start of the run") {
    const auto order = only<order_form>(x.ended(first, 0, {}, second));
    CHECK(order.sources.at(0) == state_source{state_tier::start, step_id(0)});
  }
}

TEST_CASE("MEMBER-4: the first cause is reported, in whatever order its effects arrive",
          "[actors][membership]") {
  const auto first = make_generation(0, 1);
  const auto cause = death(first, "replica:1");
  const auto effect = death(first, "replica:0", death_cause::peer);
  const bool late = GENERATE(false, true);
  auto x = running(recovers, 7);
  CHECK(x.lost(death(first, "replica:2", death_cause::cancelled), second).empty());
  CHECK(x.now() == membership::phase::running);
  x.lost(late ? effect : cause, second);
  CHECK(x.lost(late ? cause : effect, second).empty());
  REQUIRE(x.cause());
  CHECK(x.cause()->who == "replica:1");
  // A second cause does not replace the first.
  x.lost(death(first, "replica:3"), second);
  CHECK(x.cause()->who == "replica:1");
}

TEST_CASE("MEMBER-5: repeated failures without progress lead to an older tier, then end the run",
          "[actors][membership]") {
  auto x = running(recovers, 7);
  x.saved(3);
  std::vector<state_tier> tiers;
  for (int i = 0; i < 3; ++i) {
    const auto of = x.generation();
    x.lost(death(of), second);
    tiers.push_back(only<order_form>(x.ended(of, 0, holding(3, 7), second)).tier());
    x.ready(x.generation());
  }
  CHECK(tiers == std::vector{state_tier::estate, state_tier::estate, state_tier::disk});
  // Repeated steps are no progress.
  for (std::uint64_t n = 4; n <= 7; ++n)
    x.kept(n);
  const auto of = x.generation();
  x.lost(death(of), second);
  const auto stop = only<order_stop>(x.ended(of, 0, holding(6, 7), second));
  CHECK_THAT(stop.why, ContainsSubstring("replica:0: it broke") && ContainsSubstring("step 8"));
  CHECK(x.now() == membership::phase::stopped);
  CHECK(x.lost(death(x.generation()), second).empty());
}

TEST_CASE("MEMBER-5: services that end with their node are replaced and not counted",
          "[actors][membership]") {
  auto x = running(recovers, 7);
  for (const auto role : {member_role::loader, member_role::checkpointer, member_role::monitor})
    for (int i = 0; i < 4; ++i) {
      auto ended = death(x.generation(), "service", death_cause::cancelled);
      ended.role = role;
      CHECK(only<order_replace>(x.lost(ended, second)).role == role);
    }
  CHECK(x.take_restarts().empty());
}

TEST_CASE("MEMBER-5: one more step is progress", "[actors][membership]") {
  auto x = running(recovers, 0);
  for (std::uint64_t n = 1; n <= 9; ++n) {
    x.kept(n);
    const auto of = x.generation();
    x.lost(death(of), second);
    CHECK(only<order_form>(x.ended(of, 0, holding(n, n), second)).sources.at(0)
          == state_source{state_tier::estate, step_id(n)});
    x.ready(x.generation());
  }
}

TEST_CASE("MEMBER-5: too many restarts within the window end the run", "[actors][membership]") {
  const std::uint64_t apart = GENERATE(second, 40 * second);
  auto x = running({.on = true, .most = 2, .window_ns = 60 * second}, 0);
  membership::orders last;
  for (std::uint64_t n = 1; n <= 3; ++n) {
    x.kept(n);
    const auto of = x.generation();
    x.lost(death(of), n * apart);
    last = x.ended(of, 0, holding(n, n), n * apart);
    x.ready(x.generation());
  }
  if (apart == second)
    CHECK_THAT(only<order_stop>(last).why, ContainsSubstring("`recovery.max_restarts` 2"));
  else
    only<order_form>(last);
}

TEST_CASE("MEMBER-5: a repeated step does not count as a failure", "[actors][membership]") {
  auto x = running({.on = true, .most = 1}, 7);
  const auto runs_again = [&] {
    auto again = death(x.generation(), "step 8");
    again.runs_again = true;
    CHECK(only<order_end>(x.lost(again, second)).last == x.generation());
  };
  const auto all_end = [&] {
    only<order_form>(x.ended(x.generation(), 0, holding(7, 7), second));
    x.ready(x.generation());
  };
  for (int n = 0; n < 5; ++n) {
    runs_again();
    x.lost(death(x.generation(), "replica:0", death_cause::cancelled), second);
    CHECK(x.cause()->who == "step 8");
    all_end();
  }
  CHECK(x.take_restarts().empty());
}

TEST_CASE("MEMBER-5: a repeated step starts from the kept state, whatever failed before",
          "[actors][membership]") {
  auto x = running(recovers, 7);
  x.saved(3);
  const auto goes_back_after = [&](bool runs_again) {
    auto cause = death(x.generation());
    cause.runs_again = runs_again;
    x.lost(cause, second);
    return x.ended(x.generation(), 0, holding(3, 7), second);
  };
  for (const auto tier : {state_tier::estate, state_tier::estate, state_tier::disk}) {
    CHECK(only<order_form>(goes_back_after(false)).tier() == tier);
    x.ready(x.generation());
  }
  for (std::uint64_t n = 4; n <= 7; ++n)
    x.kept(n);
  for (int n = 0; n < 3; ++n) {
    CHECK(only<order_form>(goes_back_after(true)).sources.at(0)
          == state_source{state_tier::estate, step_id(7)});
    x.ready(x.generation());
  }
  only<order_stop>(goes_back_after(false));
}

TEST_CASE("without recovery a death ends the run with its reason", "[actors][membership]") {
  auto x = running({}, 7);
  const auto stop = only<order_stop>(x.lost(death(x.generation()), second));
  CHECK(stop.why == "replica:0: it broke");
  CHECK(x.now() == membership::phase::stopped);
}

TEST_CASE("a dead service is replaced within the generation", "[actors][membership]") {
  const auto role = GENERATE(member_role::loader, member_role::checkpointer, member_role::monitor);
  auto x = running(recovers, 7);
  CHECK(only<order_replace>(x.lost(death_of(role, "it"), second)).role == role);
  CHECK(x.now() == membership::phase::running);
  x.lost(death_of(role, "it"), second);
  x.lost(death_of(role, "it"), second);
  const auto fourth = x.lost(death_of(role, "it"), second);
  if (role == member_role::monitor)  // a log does not end the training
    CHECK(only<order_forgo>(fourth).role == role);
  else
    CHECK_THAT(only<order_stop>(fourth).why, ContainsSubstring("it: it broke"));
}

TEST_CASE("a refusal before the first step is reported at once", "[actors][membership]") {
  membership x(recovers, 0, 0);
  x.begin();
  auto refused = death(x.generation());
  refused.refused = true;
  CHECK(only<order_stop>(x.lost(refused, second)).why == "replica:0: it broke");
  auto later = running(recovers, 0);
  refused.generation = later.generation();
  only<order_end>(later.lost(refused, second));
}

TEST_CASE("a refusal in the first generation after a cold start is reported at once",
          "[actors][membership]") {
  const bool is_cold = GENERATE(true, false);
  membership x(recovers, 1, 0);
  const auto end = only<order_end>(x.begin(is_cold));
  only<order_form>(x.ended(end.last, 0, {}, second));
  auto refused = death(x.generation());
  refused.refused = true;
  const auto then = x.lost(refused, second);
  if (is_cold)
    CHECK(only<order_stop>(then).why == "replica:0: it broke");
  else
    only<order_end>(then);  // also of the previous supervisor
}

TEST_CASE("a successor first ends its predecessor's generation", "[actors][membership]") {
  membership x(recovers, 1, 0, {{second, "supervisor", 13}});
  x.kept(12);
  const auto end = only<order_end>(x.begin());
  CHECK(end.last > make_generation(0, 0xffffffffU));
  CHECK(end.last < make_generation(1, 1));
  const auto form = only<order_form>(x.ended(end.last, 0, holding(12, 13), second));
  CHECK(form.generation == make_generation(1, 1));
  CHECK(form.sources.at(0) == state_source{state_tier::estate, step_id(12)});
  CHECK(x.take_restarts().empty());  // it is in the ledger already
}

TEST_CASE("restarts are reported once, for the ledger", "[actors][membership]") {
  auto x = running(recovers, 7);
  const auto of = x.generation();
  x.lost(death(of), 5 * second);
  x.ended(of, 0, holding(7, 7), 6 * second);
  const auto told = x.take_restarts();
  REQUIRE(told.size() == 1);
  CHECK(told.front().who == "replica:0");
  CHECK(told.front().step == 8);
  CHECK(x.take_restarts().empty());
}

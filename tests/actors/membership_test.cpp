// The machine that decides what becomes of a death: events in, orders out, no actor.

#include "actors/supervisor/membership.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using namespace troupe::actors;
using Catch::Matchers::ContainsSubstring;
using runtime::make_generation;
using runtime::state_source;
using runtime::state_tier;
using runtime::step_id;

namespace {

constexpr std::uint64_t second = 1'000'000'000;

member_death death(runtime::generation_id of,
                   const std::string& who = "replica:0",
                   death_cause cause = death_cause::own) {
  return {.generation = of,
          .role = member_role::rank,
          .who = who,
          .cause = cause,
          .why = who + ": it broke"};
}

member_death death_of(member_role role, const std::string& who) {
  auto x = death(make_generation(0, 1), who);
  x.role = role;
  return x;
}

/// Running in its first generation, everybody has kept `step`.
membership running(restart_limits limits, std::uint64_t step = 0) {
  membership x(limits, 0, 0);
  x.begin();
  x.ready(x.generation());
  x.kept(step);
  return x;
}

std::vector<generation_remains> holding(std::uint64_t oldest, std::uint64_t newest) {
  return {{.newest = newest, .oldest = oldest}};
}

template <class Order>
Order only(const membership::orders& x) {
  REQUIRE(x.size() == 1);
  REQUIRE(std::holds_alternative<Order>(x.front()));
  return std::get<Order>(x.front());
}

const restart_limits recovers{.on = true};

}  // namespace

TEST_CASE("the first supervisor forms the first generation at once", "[actors][membership]") {
  membership x(recovers, 0, 40);
  const auto order = only<order_form>(x.begin());
  CHECK(order.generation == make_generation(0, 1));
  CHECK(order.source == state_source{state_tier::start, step_id(40)});
  CHECK(x.now() == membership::phase::forming);
  x.ready(order.generation);
  CHECK(x.now() == membership::phase::running);
}

TEST_CASE("MEMBER-1: after a death the generation ends, and only then the next is formed",
          "[actors][membership]") {
  auto x = running(recovers, 7);
  const auto first = x.generation();
  CHECK(only<order_end>(x.lost(death(first), second)).last == first);
  CHECK(x.now() == membership::phase::ending);
  CHECK(x.ended(make_generation(0, 9), holding(6, 7), {}, second).empty());  // not this one
  const auto order = only<order_form>(x.ended(first, holding(6, 7), {}, second));
  CHECK(order.generation == make_generation(0, 2));
  CHECK(order.source == state_source{state_tier::estate, step_id(7)});
}

TEST_CASE("MEMBER-2: what was of an older generation changes nothing", "[actors][membership]") {
  auto x = running(recovers, 7);
  const auto first = x.generation();
  x.lost(death(first), second);
  x.ended(first, holding(7, 8), {}, second);
  const auto next = x.generation();
  CHECK(x.lost(death(first), second).empty());
  x.ready(first);
  CHECK(x.now() == membership::phase::forming);
  x.ready(next);
  CHECK(x.lost(death(first), second).empty());
  CHECK(x.ended(first, holding(7, 8), {}, second).empty());
  CHECK(x.now() == membership::phase::running);
}

TEST_CASE("MEMBER-3: the run goes back to the newest step that all have kept, or to an older tier",
          "[actors][membership]") {
  auto x = running(recovers, 7);
  const auto first = x.generation();
  x.lost(death(first), second);
  SECTION("some have gone further: that is undone") {
    const auto order = only<order_form>(x.ended(first, holding(7, 8), 4, second));
    CHECK(order.source == state_source{state_tier::estate, step_id(7)});
  }
  SECTION("a rank has lost it: the checkpoint") {
    const auto order = only<order_form>(x.ended(first, {{}}, 4, second));
    CHECK(order.source == state_source{state_tier::disk, step_id(4)});
    CHECK(x.kept() == 4);
  }
  SECTION("a rank of another process has lost it") {
    auto remains = holding(6, 7);
    remains.push_back({.newest = 6, .oldest = 5});
    const auto order = only<order_form>(x.ended(first, remains, 4, second));
    CHECK(order.source == state_source{state_tier::disk, step_id(4)});
  }
  SECTION("there is no checkpoint: the start of the run") {
    const auto order = only<order_form>(x.ended(first, {{}}, {}, second));
    CHECK(order.source == state_source{state_tier::start, step_id(0)});
  }
}

TEST_CASE("MEMBER-4: the first cause is told, in whatever order its effects are heard",
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
  // A second cause is not the first.
  x.lost(death(first, "replica:3"), second);
  CHECK(x.cause()->who == "replica:1");
}

TEST_CASE(
    "MEMBER-5: what strikes again and again without progress goes to an older tier, then ends "
    "the run",
    "[actors][membership]") {
  auto x = running(recovers, 7);
  std::vector<state_tier> tiers;
  for (int i = 0; i < 3; ++i) {
    const auto of = x.generation();
    x.lost(death(of), second);
    tiers.push_back(only<order_form>(x.ended(of, holding(3, 7), 3, second)).source.tier);
    x.ready(x.generation());
  }
  CHECK(tiers == std::vector{state_tier::estate, state_tier::estate, state_tier::disk});
  // The steps that are run again are no progress.
  for (std::uint64_t n = 4; n <= 7; ++n)
    x.kept(n);
  const auto of = x.generation();
  x.lost(death(of), second);
  const auto stop = only<order_stop>(x.ended(of, holding(6, 7), 3, second));
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

TEST_CASE("MEMBER-5: a step more is progress", "[actors][membership]") {
  auto x = running(recovers, 0);
  for (std::uint64_t n = 1; n <= 9; ++n) {
    x.kept(n);
    const auto of = x.generation();
    x.lost(death(of), second);
    CHECK(only<order_form>(x.ended(of, holding(n, n), {}, second)).source
          == state_source{state_tier::estate, step_id(n)});
    x.ready(x.generation());
  }
}

TEST_CASE("MEMBER-5: more restarts within the window than allowed end the run",
          "[actors][membership]") {
  const std::uint64_t apart = GENERATE(second, 40 * second);
  auto x = running({.on = true, .most = 2, .window_ns = 60 * second}, 0);
  membership::orders last;
  for (std::uint64_t n = 1; n <= 3; ++n) {
    x.kept(n);
    const auto of = x.generation();
    x.lost(death(of), n * apart);
    last = x.ended(of, holding(n, n), {}, n * apart);
    x.ready(x.generation());
  }
  if (apart == second)
    CHECK_THAT(only<order_stop>(last).why, ContainsSubstring("`recovery.max_restarts` 2"));
  else
    only<order_form>(last);
}

TEST_CASE("without recovery a death ends the run, for its own reason", "[actors][membership]") {
  auto x = running({}, 7);
  const auto stop = only<order_stop>(x.lost(death(x.generation()), second));
  CHECK(stop.why == "replica:0: it broke");
  CHECK(x.now() == membership::phase::stopped);
}

TEST_CASE("a service that dies is replaced, and ends no generation", "[actors][membership]") {
  const auto role = GENERATE(member_role::loader, member_role::checkpointer, member_role::monitor);
  auto x = running(recovers, 7);
  CHECK(only<order_replace>(x.lost(death_of(role, "it"), second)).role == role);
  CHECK(x.now() == membership::phase::running);
  x.lost(death_of(role, "it"), second);
  x.lost(death_of(role, "it"), second);
  const auto fourth = x.lost(death_of(role, "it"), second);
  if (role == member_role::monitor)  // a log ends no training
    CHECK(only<order_forgo>(fourth).role == role);
  else
    CHECK_THAT(only<order_stop>(fourth).why, ContainsSubstring("it: it broke"));
}

TEST_CASE("what is refused before the first step is told at once", "[actors][membership]") {
  membership x(recovers, 0, 0);
  x.begin();
  auto refused = death(x.generation());
  refused.refused = true;
  CHECK(only<order_stop>(x.lost(refused, second)).why == "replica:0: it broke");
  auto later = running(recovers, 0);
  refused.generation = later.generation();
  only<order_end>(later.lost(refused, second));
}

TEST_CASE("a successor first ends what the supervisor before has left", "[actors][membership]") {
  membership x(recovers, 1, 12, {{second, "supervisor", 13}});
  const auto end = only<order_end>(x.begin());
  CHECK(end.last > make_generation(0, 0xffffffffU));
  CHECK(end.last < make_generation(1, 1));
  const auto form = only<order_form>(x.ended(end.last, holding(12, 13), {}, second));
  CHECK(form.generation == make_generation(1, 1));
  CHECK(form.source == state_source{state_tier::estate, step_id(12)});
  CHECK(x.take_restarts().empty());  // the ledger has that one
}

TEST_CASE("the restarts are told once, for the ledger", "[actors][membership]") {
  auto x = running(recovers, 7);
  const auto of = x.generation();
  x.lost(death(of), 5 * second);
  x.ended(of, holding(7, 7), {}, 6 * second);
  const auto told = x.take_restarts();
  REQUIRE(told.size() == 1);
  CHECK(told.front().who == "replica:0");
  CHECK(told.front().step == 8);
  CHECK(x.take_restarts().empty());
}

TEST_CASE("MEMBER-3: a successor knows what the run began with, not only what was kept since") {
  membership x(recovers, 1, 12, {}, 3);
  x.begin();
  // A rank has lost its state, and nothing was saved.
  const auto form = only<order_form>(x.ended(make_generation(1, 0), {}, std::nullopt, second));
  CHECK(form.source == state_source{state_tier::start, step_id(3)});
}

// What becomes of connections that break between processes which both live: events in, orders out.

#include "actors/supervisor/membership.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using namespace troupe::actors;
using Catch::Matchers::ContainsSubstring;
using runtime::make_generation;
using runtime::state_tier;

namespace {

constexpr std::uint64_t moment = 1'000'000'000;

/// Three processes, each of which keeps the states of the one before it.
struct linked {
  linked() : x({.on = true}, 0, 0, {}, 3) {
    x.begin();
    for (int p = 0; p < 3; ++p)
      x.stands(p, 1, false, now);
    x.ready(x.generation());
    keeps(7);
  }

  void keeps(std::uint64_t newest) {
    step = newest;
    x.kept(newest);
  }

  membership::orders breaks(int from, int to) {
    return x.broke({from, to, x.incarnation(from), x.incarnation(to)},
                   x.generation(),
                   "between them it broke");
  }
  /// All that stand.
  membership::orders end() {
    membership::orders out;
    for (int p = 0; p < 3; ++p) {
      if (!x.stands(p))
        continue;
      generation_remains left{.newest = step + 1, .oldest = step};
      left.kept[(p + 2) % 3] = {step, step + 1};
      out = x.ended(x.generation(), p, left, now);
    }
    return out;
  }
  order_form formed(const membership::orders& all) {
    REQUIRE(all.size() == 1);
    REQUIRE(std::holds_alternative<order_form>(all.front()));
    x.ready(x.generation());
    return std::get<order_form>(all.front());
  }
  int exchanged(const membership::orders& all) {
    REQUIRE(all.size() == 1);
    REQUIRE(std::holds_alternative<order_exchange>(all.front()));
    return std::get<order_exchange>(all.front()).process;
  }

  std::uint64_t now = moment, step = 0;
  membership x;
};

}  // namespace

TEST_CASE("a connection that breaks ends the generation and both processes go on",
          "[actors][membership]") {
  linked it;
  CHECK(it.breaks(1, 0).size() == 3);
  CHECK(it.breaks(0, 1).empty());  // the other end says the same
  REQUIRE(it.x.cause());
  CHECK(it.x.cause()->who == "connection:0-1");
  CHECK_THAT(it.x.cause()->why, ContainsSubstring("between them"));
  const auto form = it.formed(it.end());
  CHECK(form.generation == make_generation(0, 2));
  CHECK(form.tier() == state_tier::estate);
  const auto told = it.x.take_restarts();
  REQUIRE(told.size() == 1);
  CHECK(told[0].who == "connection:0-1");
}

TEST_CASE("MEMBER-7: where it breaks again one of both is exchanged and then the other one",
          "[actors][membership]") {
  linked it;
  it.breaks(0, 1);
  it.formed(it.end());
  it.keeps(9);
  it.breaks(1, 0);
  CHECK(it.exchanged(it.end()) == 1);
  CHECK_FALSE(it.x.stands(1));
  CHECK(it.x.lost(1, 1, "process:1: killed", it.now).empty());  // it was to be
  const auto form = it.formed(it.x.stands(1, 2, false, it.now));
  CHECK(form.sources[1].tier == state_tier::keeper);
  CHECK(it.x.take_restarts().size() == 2);  // each time one
  it.keeps(11);
  it.breaks(1, 0);
  CHECK(it.exchanged(it.end()) == 0);
}

TEST_CASE("MEMBER-7: who cannot be reached by another either is exchanged",
          "[actors][membership]") {
  linked it;
  it.breaks(0, 2);
  it.formed(it.end());
  it.keeps(9);
  it.breaks(0, 1);
  it.formed(it.end());
  it.keeps(11);
  it.breaks(1, 0);
  CHECK(it.exchanged(it.end()) == 0);
}

TEST_CASE("MEMBER-4: a connection that breaks is less than a death and more than what peers tell",
          "[actors][membership]") {
  linked it;
  const auto first = it.x.generation();
  it.x.lost({.generation = first, .who = "replica:0", .cause = death_cause::peer, .why = "lost"},
            it.now);
  it.breaks(0, 1);
  CHECK(it.x.cause()->who == "connection:0-1");
  it.x.lost(1, 1, "process:1: killed", it.now);
  CHECK(it.x.cause()->who == "process:1");
  it.end();
  it.formed(it.x.stands(1, 2, false, it.now));
  it.keeps(9);
  // That time it was the death of the process: it counts for no pair.
  it.breaks(0, 1);
  it.formed(it.end());
}

TEST_CASE("MEMBER-2: a connection of an older generation or incarnation changes nothing",
          "[actors][membership]") {
  linked it;
  const auto first = it.x.generation();
  CHECK(it.x.broke({0, 1, 1, 7}, first, "of a life before").empty());
  it.breaks(0, 1);
  it.formed(it.end());
  CHECK(it.x.broke({0, 1, 1, 1}, first, "heard late").empty());
  CHECK(it.x.now() == membership::phase::running);
}

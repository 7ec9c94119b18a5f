// Membership and connections that break between living processes: events in, orders out.

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

/// Processes in a ring: each keeps the states of the one before it.
struct linked {
  explicit linked(int processes = 3) : of(processes), x({.on = true}, 0, 0, {}, processes) {
    x.begin();
    for (int p = 0; p < of; ++p)
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
  membership::orders end(int p) {
    generation_remains left{.newest = step + 1, .oldest = step};
    if (p != keeps_nothing)
      left.kept[(p + of - 1) % of] = {step, step + 1};
    return x.ended(x.generation(), p, left, now);
  }
  /// Ends all running processes, as often as ordered.
  membership::orders end() {
    membership::orders out;
    do {
      for (int p = 0; p < of; ++p)
        if (x.stands(p))
          if (auto next = end(p); !next.empty())
            out = std::move(next);
    } while (!out.empty() && std::holds_alternative<order_end>(out.front()));
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
  int keeps_nothing = -1;  ///< a new process without a kept state
  int of;
  membership x;
};

}  // namespace

TEST_CASE("a broken connection ends the generation, and both processes go on",
          "[actors][membership]") {
  linked it;
  CHECK(it.breaks(1, 0).size() == 3);
  CHECK(it.breaks(0, 1).empty());  // the report of the other end
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

TEST_CASE("a connection that breaks before a repeated step is the reported cause",
          "[actors][membership]") {
  linked it;
  CHECK(it.x.lost({.generation = it.x.generation(), .who = "step 8", .runs_again = true}, it.now)
            .size()
        == 3);
  CHECK(it.breaks(1, 0).empty());
  REQUIRE(it.x.cause());
  CHECK(it.x.cause()->who == "connection:0-1");
  it.formed(it.end());
  const auto told = it.x.take_restarts();
  REQUIRE(told.size() == 1);
  CHECK(told[0].who == "connection:0-1");
}

TEST_CASE("LINK-1: both ends of a broken connection close the rest of it before they go on",
          "[actors][membership]") {
  linked it(4);
  const auto ends = [&](int p, std::vector<int> broken_with) {
    return membership_order{order_end{it.x.generation(), p, std::move(broken_with)}};
  };
  SECTION("the break ends the generation") {
    CHECK(it.breaks(1, 3)
          == membership::orders{ends(0, {}), ends(1, {3}), ends(2, {}), ends(3, {1})});
    it.formed(it.end());
  }
  SECTION("the break is reported during the end, also by ended processes") {
    it.breaks(1, 3);
    it.end(0);
    it.end(1);
    CHECK(it.breaks(2, 0).empty());
    CHECK(it.breaks(3, 1).empty());
    CHECK(it.end(2).empty());
    CHECK(it.end(3) == membership::orders{ends(0, {2}), ends(2, {0})});
    CHECK(it.end(1).empty());  // it has ended
    CHECK(it.end(2).empty());
    it.formed(it.end(0));
  }
  SECTION("a replaced process is not notified") {
    it.x.lost(3, 1, "process:3: killed", it.now);
    CHECK(it.breaks(1, 3).empty());
    it.breaks(0, 1);
    it.x.stands(3, 2, false, it.now);
    it.end(0);
    it.end(2);
    CHECK(it.end(1) == membership::orders{ends(0, {1}), ends(1, {0})});
    it.end(1);
    it.x.lost(1, 1, "process:1: killed", it.now);
    CHECK(it.end(0).empty());
    it.formed(it.x.stands(1, 2, false, it.now));
  }
}

TEST_CASE("LINK-1: a break reported after all ended is closed and does not count",
          "[actors][membership]") {
  linked it(4);
  it.breaks(0, 1);
  it.formed(it.end());
  it.breaks(0, 1);
  const int gone = it.exchanged(it.end());
  CHECK(it.breaks(2, 3).empty());
  const auto ends = [&](int p, std::vector<int> broken_with) {
    return membership_order{order_end{it.x.generation(), p, std::move(broken_with)}};
  };
  CHECK(it.x.stands(gone, 2, false, it.now) == membership::orders{ends(2, {3}), ends(3, {2})});
  it.end(2);
  it.formed(it.end(3));
  const auto restarts = it.x.take_restarts();
  CHECK(restarts.size() == 2);
  it.breaks(2, 3);  // the first break between them that counts: both go on
  it.formed(it.end());
}

TEST_CASE("MEMBER-7: after a second break one process is exchanged, then the other one",
          "[actors][membership]") {
  linked it;
  it.breaks(0, 1);
  it.formed(it.end());
  it.keeps(9);
  it.breaks(1, 0);
  CHECK(it.exchanged(it.end()) == 1);
  CHECK_FALSE(it.x.stands(1));
  CHECK(it.x.lost(1, 1, "process:1: killed", it.now).empty());  // the exchange kills it
  const auto form = it.formed(it.x.stands(1, 2, false, it.now));
  CHECK(form.sources[1].tier == state_tier::keeper);
  CHECK(it.x.take_restarts().size() == 2);  // one each time
  it.keeps(11);
  it.breaks(1, 0);
  CHECK(it.exchanged(it.end()) == 0);
}

TEST_CASE("MEMBER-7: the process that breaks with two others is exchanged",
          "[actors][membership]") {
  linked it(6);
  it.breaks(0, 1);
  it.formed(it.end());  // the guilty one is unknown
  it.keeps(9);
  it.breaks(3, 4);
  it.formed(it.end());  // the guilty one is unknown here, too
  it.keeps(11);
  it.breaks(1, 2);
  CHECK(it.exchanged(it.end()) == 1);
  it.formed(it.x.stands(1, 2, false, it.now));
  it.keeps(13);
  it.breaks(1, 5);
  it.formed(it.end());  // breaks of its predecessor do not count for the new process
}

TEST_CASE("MEMBER-7: two breaks of one generation name their common process",
          "[actors][membership]") {
  linked it(4);
  it.breaks(0, 2);
  it.breaks(2, 0);
  it.breaks(2, 3);
  CHECK(it.exchanged(it.end()) == 2);
  const auto told = it.x.take_restarts();
  REQUIRE(told.size() == 1);
  CHECK(told[0].who == "connection:0-2");
}

TEST_CASE("MEMBER-7: a process without a keeper's copy of its state is not exchanged",
          "[actors][membership]") {
  linked it(2);
  it.breaks(0, 1);
  it.formed(it.end());
  it.keeps(9);
  it.breaks(0, 1);
  CHECK(it.exchanged(it.end()) == 1);
  it.formed(it.x.stands(1, 2, false, it.now));
  it.keeps_nothing = 1;  // otherwise process 0 would be next
  it.breaks(0, 1);
  CHECK(it.exchanged(it.end()) == 1);
  it.formed(it.x.stands(1, 3, false, it.now));
  it.x.lost({.generation = it.x.generation(), .who = "replica:0", .why = "an accident"}, it.now);
  it.end();
  CHECK(it.x.now() == membership::phase::forming);
  CHECK(it.x.kept() == 9);
}

TEST_CASE("MEMBER-7: both processes go on if an exchange would lose steps",
          "[actors][membership]") {
  linked it(2);
  it.breaks(0, 1);
  it.formed(it.end());
  it.keeps(9);
  it.breaks(0, 1);
  generation_remains left{.newest = 10, .oldest = 9};  // their newest states are not kept yet
  it.x.ended(it.x.generation(), 0, left, it.now);
  const auto form = it.formed(it.x.ended(it.x.generation(), 1, left, it.now));
  CHECK(form.step() == runtime::step_id(9));
  CHECK(form.tier() == state_tier::estate);
}

TEST_CASE("MEMBER-7: one ending exchanges one process; late reports exchange no other",
          "[actors][membership]") {
  linked it(4);
  it.breaks(0, 2);
  it.breaks(2, 3);
  CHECK(it.exchanged(it.end()) == 2);
  CHECK(it.breaks(0, 1).empty());
  CHECK(it.breaks(0, 3).empty());
  CHECK(it.x.lost({.generation = it.x.generation(), .who = "replica:1", .why = "late"}, it.now)
            .empty());
  CHECK_FALSE(it.x.cause());
  CHECK(it.x.stands(2, 2, false, it.now).size() == 3);  // LINK-1: both ends of each close the rest
  it.formed(it.end());
  CHECK(it.x.take_restarts().size() == 1);
}

TEST_CASE("MEMBER-5: a death during an exchange is a separate restart", "[actors][membership]") {
  linked it(4);
  it.breaks(0, 2);
  it.breaks(2, 3);
  CHECK(it.exchanged(it.end()) == 2);
  CHECK(it.x.lost(0, 1, "process:0: killed", it.now).size() == 1);
  it.x.stands(2, 2, false, it.now);
  it.formed(it.x.stands(0, 2, false, it.now));
  const auto told = it.x.take_restarts();
  REQUIRE(told.size() == 2);
  CHECK(told[0].who == "connection:0-2");
  CHECK(told[1].who == "process:0");
}

TEST_CASE("MEMBER-5: a break beyond the limit ends the run without an exchange",
          "[actors][membership]") {
  membership x({.on = true, .most = 1}, 0, 0, {}, 2);
  x.begin();
  for (int p = 0; p < 2; ++p)
    x.stands(p, 1, false, moment);
  membership::orders last;
  for (int n = 0; n < 2; ++n) {
    x.ready(x.generation());
    x.broke({0, 1, 1, 1}, x.generation(), "between them it broke");
    for (int p = 0; p < 2; ++p)
      last = x.ended(x.generation(), p, {.newest = 0, .oldest = 0, .kept = {{1 - p, {0}}}}, moment);
  }
  REQUIRE(last.size() == 1);
  CHECK(std::holds_alternative<order_stop>(last.front()));
}

TEST_CASE("several breaks at one step do not discredit the kept state", "[actors][membership]") {
  linked it(6);
  it.x.saved(5);
  it.breaks(0, 1);
  it.formed(it.end());
  it.breaks(2, 3);
  it.formed(it.end());
  it.breaks(4, 5);
  const auto form = it.formed(it.end());
  CHECK(form.step() == runtime::step_id(7));
  CHECK(form.tier() == state_tier::estate);
}

TEST_CASE(
    "MEMBER-4: as a cause, a broken connection ranks below a death and above reports of peers",
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
  // The process died, so the break does not count for the pair.
  it.breaks(0, 1);
  it.formed(it.end());
}

TEST_CASE("MEMBER-2: a break of an older generation or incarnation is ignored",
          "[actors][membership]") {
  linked it;
  const auto first = it.x.generation();
  CHECK(it.x.broke({0, 1, 1, 7}, first, "of a life before").empty());
  it.breaks(0, 1);
  it.formed(it.end());
  CHECK(it.x.broke({0, 1, 1, 1}, first, "heard late").empty());
  CHECK(it.x.now() == membership::phase::running);
}

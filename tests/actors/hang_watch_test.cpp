// A hang watch alone: reports about supervisor and node, and when it ends the process.

#include "actors/node/hang_watch.hpp"

#include "tests/support/deterministic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using place = runtime::lane_board::place;

namespace {

constexpr std::size_t threads = 5;

struct watching {
  explicit watching(bool has_front = true) {
    prepared = tests::without_threads(tests::tiny_job(1, 1));
    if (has_front)
      front = system.listener(by_front);
    watch = system.keep(system.home().spawn(
        actors::hang_watch,
        actors::watch_settings{.suspicion = 1,
                               .front = front,
                               .threads = threads,
                               .give_up = [this](const std::string& x) { reasons.push_back(x); }},
        std::shared_ptr<const actors::node_context>(prepared->node)));
    system.run();
  }
  /// Messages of one thread end in reverse order.
  ~watching() {
    while (!turns.empty())
      turns.pop_back();
  }
  watching(const watching&) = delete;
  watching& operator=(const watching&) = delete;

  /// The member hangs in a message from now on.
  const place& hang(runtime::lane_board::member who) {
    places.push_back(prepared->node->lanes->add(std::move(who)));
    const auto now = std::uint64_t(system.home().clock().now().time_since_epoch().count());
    turns.push_back(std::make_unique<place::at_message>(*places.back(), "vote", 4, now));
    return *places.back();
  }
  void hang_and_be_left_behind(bool shares_thread) {
    prepared->node->lanes->leave_behind(
        hang({.who = "stage:0.0", .shares_thread = shares_thread}).number());
  }
  void pass(int quarters) {
    for (int i = 0; i < quarters; ++i)
      system.advance(std::chrono::milliseconds(250));
  }

  tests::heard_by<messages::front_actor> by_front;
  std::vector<std::string> reasons;
  std::shared_ptr<actors::prepared_job> prepared;
  std::vector<std::shared_ptr<place>> places;
  std::vector<std::unique_ptr<place::at_message>> turns;
  tests::deterministic system;
  messages::front_actor front;
  messages::hang_watch_actor watch;
};

}  // namespace

TEST_CASE("a hanging supervisor is reported to the front with its number", "[actors]") {
  watching it;
  it.hang({.who = "supervisor", .actor = 12});
  it.pass(3);
  CHECK(it.by_front.of<messages::suspected>().empty());
  it.pass(5);
  REQUIRE(it.by_front.of<messages::suspected>().size() == 1);
  const auto& told = it.by_front.of<messages::suspected>().front();
  CHECK(told.who == "supervisor");
  CHECK(told.actor == 12);
  CHECK_THAT(told.why, ContainsSubstring("supervisor has shown no progress for"));
  CHECK(it.reasons.empty());
}

TEST_CASE("a process without a front ends when its node hangs", "[actors]") {
  watching it(false);
  it.hang({.who = "node", .actor = 12});
  it.pass(8);
  REQUIRE(it.reasons.size() == 1);
  CHECK_THAT(it.reasons.front(), ContainsSubstring("node has shown no progress for"));
}

TEST_CASE("HANG-4: a run with a hung front ends with that reason", "[actors]") {
  watching it;
  it.hang({.who = "front", .actor = it.front->id(), .shares_thread = true});
  it.pass(3);
  CHECK(it.reasons.empty());
  it.pass(5);
  REQUIRE(it.reasons.size() == 1);
  CHECK_THAT(it.reasons.front(), ContainsSubstring("front has shown no progress for"));
  CHECK(it.by_front.of<messages::suspected>().empty());
}

TEST_CASE("HANG-2: a run with one free thread for actors ends with that reason", "[actors]") {
  watching it;
  for (std::size_t i = 0; i + 2 < threads; ++i)
    it.hang_and_be_left_behind(true);
  it.hang_and_be_left_behind(false);  // a lane or loader has its own thread
  it.pass(1);
  CHECK(it.reasons.empty());
  it.hang_and_be_left_behind(true);
  it.pass(2);
  REQUIRE(it.reasons.size() == 1);
  CHECK_THAT(it.reasons.front(), ContainsSubstring("threads that actors share"));
}

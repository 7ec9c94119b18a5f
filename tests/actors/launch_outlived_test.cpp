// Processes that outlive the launcher that started them.

#include "actors/process/launch_machine.hpp"
#include "tests/support/launching.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <vector>

using namespace troupe;
using namespace troupe::actors;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using messages::process_name;

TEST_CASE("a successor gets the living process, and older ones are refused", "[actors]") {
  launching it;
  it.stand(0);
  const auto told = of<launch_action::tell_started>(it.machine.wanted(0, in(2)));
  REQUIRE(told.size() == 1);
  CHECK(told[0].lived);
  CHECK(told[0].who == process_name{0, 1});
  CHECK(it.machine.wanted(0, in(1, 9)).empty());
  CHECK(it.machine.wanted(5, in(2)).empty());
}

TEST_CASE("a process that outlived its launcher joins again without a start", "[actors]") {
  launching it;
  const auto taken = it.machine.take_over({.who = {0, 4}, .pid = 104});
  REQUIRE(of<launch_action::expect>(taken).size() == 1);
  CHECK(of<launch_action::start>(taken).empty());
  CHECK(it.machine.wanted(0, in(2)).empty());  // it is expected
  CHECK_THAT(it.machine.joins({0, 3}, 103), ContainsSubstring("PROCESS-1"));
  CHECK_THAT(it.machine.joins({0, 4}, 999), ContainsSubstring("PROCESS-1"));
  REQUIRE(it.machine.joins({0, 4}, 104).empty());
  const auto told = of<launch_action::tell_started>(it.machine.present({0, 4}));
  REQUIRE(told.size() == 1);
  CHECK(told[0].lived);
  // The next process of this place is a new one.
  const auto died = it.machine.died({0, 4}, "killed by SIGKILL");
  CHECK(of<launch_action::tell_died>(died).size() == 1);
  const auto again = of<launch_action::start>(it.machine.wanted(0, in(2, 2)));
  REQUIRE(again.size() == 1);
  CHECK(again[0].who == process_name{0, 5});
}

TEST_CASE("a process that died with its launcher or does not join again is replaced", "[actors]") {
  launching it;
  CHECK(it.machine.take_over({.who = {0, 4}}).empty());
  const auto first = of<launch_action::start>(it.machine.wanted(0, in(2)));
  REQUIRE(first.size() == 1);
  CHECK(first[0].who == process_name{0, 5});
  it.machine.take_over({.who = {1, 2}, .pid = 201});
  it.machine.wanted(1, in(2));
  const auto late = it.machine.late({1, 2}, "it has not come");
  REQUIRE(of<launch_action::kill>(late).size() == 1);
  CHECK(of<launch_action::kill>(late)[0].who == process_name{1, 2});
  const auto again = of<launch_action::start>(it.machine.died({1, 2}, "killed by SIGKILL"));
  REQUIRE(again.size() == 1);
  CHECK(again[0].who == process_name{1, 3});
}

TEST_CASE("all processes die with an agent that is not replaced, and the next order starts another",
          "[actors]") {
  launching it;
  it.stand(0);
  it.stand(1);
  const auto gone = it.machine.agent_gone(0, "the agent is gone");
  CHECK(of<launch_action::tell_died>(gone).size() == 2);
  CHECK(of<launch_action::forget>(gone).size() == 2);
  CHECK(it.machine.here().empty());
  CHECK(of<launch_action::start>(it.machine.wanted(0, in(1, 2))).size() == 1);
}

// Start and restart of processes, event by event.

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

TEST_CASE("PROCESS-1: a late older incarnation is refused", "[actors]") {
  launching it;
  const auto first = it.start(it.machine.wanted(0, in(1)), 101);
  const auto again = it.machine.died(first, "killed by SIGKILL");
  REQUIRE(of<launch_action::start>(again).size() == 1);
  CHECK(of<launch_action::start>(again)[0].who == process_name{0, 2});
  CHECK_THAT(it.machine.joins({0, 1}, 101), ContainsSubstring("PROCESS-1"));
  CHECK(it.machine.present({0, 1}).empty());
  CHECK(it.machine.here().empty());
  it.start(again, 102);
  it.come({0, 2}, 102);
  CHECK_THAT(it.machine.joins({0, 1}, 101), ContainsSubstring("PROCESS-1"));
  CHECK(it.machine.present({0, 1}).empty());
  CHECK(it.machine.withdrawn({0, 1}, "it does not matter").empty());
  CHECK(it.machine.here() == std::vector<process_name>{{0, 2}});
}

TEST_CASE("PROCESS-1: a wrong process or one outside the job cannot join", "[actors]") {
  launching it;
  const auto asked = it.machine.wanted(0, in(1));
  CHECK_FALSE(it.machine.joins({1, 1}, 7).empty());
  CHECK_FALSE(it.machine.joins({2, 1}, 7).empty());
  CHECK_FALSE(it.machine.joins({-1, 1}, 7).empty());
  CHECK_FALSE(it.machine.joins({0, 2}, 7).empty());
  it.start(asked, 101);
  CHECK_THAT(it.machine.joins({0, 1}, 99), ContainsSubstring("PROCESS-1"));  // another pid
  CHECK(it.machine.joins({0, 1}, 101).empty());
  CHECK(it.machine.joins({0, 1}, 101).empty());  // its own answer came too late
  CHECK_THAT(it.machine.joins({0, 1}, 102), ContainsSubstring("PROCESS-1"));
  it.machine.present({0, 1});
  CHECK_THAT(it.machine.joins({0, 1}, 101), ContainsSubstring("PROCESS-1"));
}

TEST_CASE("a process that joins early is checked when the agent reports its start", "[actors]") {
  launching it;
  const auto asked = of<launch_action::start>(it.machine.wanted(0, in(1)));
  CHECK(it.machine.joins({0, 1}, 99).empty());
  const auto kills = of<launch_action::kill>(it.machine.started(asked[0].request, 101));
  REQUIRE(kills.size() == 1);
  CHECK(kills[0].who == process_name{0, 1});
  CHECK(it.machine.present({0, 1}).empty());
}

TEST_CASE("a process is reported as started once, when it is ready", "[actors]") {
  launching it;
  it.start(it.machine.wanted(0, in(1)), 101);
  REQUIRE(it.machine.joins({0, 1}, 101).empty());
  CHECK(it.machine.here().empty());
  const auto told = it.machine.present({0, 1});
  REQUIRE(told.size() == 1);
  REQUIRE(of<launch_action::tell_started>(told).size() == 1);
  CHECK(of<launch_action::tell_started>(told)[0].who == process_name{0, 1});
  CHECK(it.machine.here() == std::vector<process_name>{{0, 1}});
  CHECK(it.machine.present({0, 1}).empty());
}

TEST_CASE("a process that dies before it is ready is started three times, then refused",
          "[actors]") {
  launching it;
  auto asked = it.machine.wanted(0, in(1));
  for (int n = 1; n <= most_failed_starts; ++n) {
    const auto who = it.start(asked, 100 + n);
    asked = it.machine.died(who, "exit code 7");
    CHECK(of<launch_action::start>(asked).size() == (n < most_failed_starts ? 1 : 0));
    CHECK(of<launch_action::tell_died>(asked).empty());
  }
  const auto refusals = of<launch_action::refuse>(asked);
  REQUIRE(refusals.size() == 1);
  CHECK_THAT(refusals[0].why, ContainsSubstring("3 times") && ContainsSubstring("exit code 7"));
}

TEST_CASE("a process that was ready once gets three new attempts", "[actors]") {
  launching it;
  const auto failed = it.start(it.machine.wanted(0, in(1)), 101);
  it.start(it.machine.died(failed, "exit code 7"), 102);
  it.come({0, 2}, 102);
  it.machine.died({0, 2}, "killed by SIGKILL");
  auto asked = it.machine.wanted(0, in(1));
  for (int n = 1; n < most_failed_starts; ++n)
    asked = it.machine.died(it.start(asked, 110 + n), "exit code 7");
  CHECK(of<launch_action::refuse>(asked).empty());
  CHECK(of<launch_action::start>(asked).size() == 1);
}

TEST_CASE("a process that withdraws is refused with its reason, and not started again",
          "[actors]") {
  launching it;
  const auto who = it.start(it.machine.wanted(0, in(1)), 101);
  REQUIRE(it.machine.joins({0, 1}, 101).empty());
  const auto refusals = of<launch_action::refuse>(it.machine.withdrawn({0, 1}, "other bits"));
  REQUIRE(refusals.size() == 1);
  CHECK(refusals[0].why == "other bits");
  const auto after = it.machine.died(who, "exit code 2");
  CHECK(of<launch_action::start>(after).empty());
  CHECK(of<launch_action::refuse>(after).empty());
}

TEST_CASE("a repeated order gets another process, and the old one is killed", "[actors]") {
  launching it;
  const auto who = it.stand(0);
  const auto asked = it.machine.wanted(0, in(1, 2));
  const auto kills = of<launch_action::kill>(asked);
  REQUIRE(kills.size() == 1);
  CHECK(kills[0].who == who);
  CHECK(of<launch_action::start>(asked).empty());  // its name is in use until it has ended
  it.machine.signalled(kills[0].request);
  const auto after = it.machine.died(who, "killed by SIGKILL");
  CHECK(of<launch_action::tell_died>(after).empty());  // an expected death is not a cause
  REQUIRE(of<launch_action::start>(after).size() == 1);
  CHECK(of<launch_action::start>(after)[0].who == process_name{0, 2});
}

TEST_CASE("a process that died before it could be killed is reported with its cause", "[actors]") {
  launching it;
  const auto who = it.stand(0);
  const auto kills = of<launch_action::kill>(it.machine.wanted(0, in(1, 2)));
  REQUIRE(kills.size() == 1);
  const auto refused = it.machine.refused(kills[0].request, "it has ended");
  CHECK(of<launch_action::refuse>(refused).empty());
  const auto after = it.machine.died(who, "killed by SIGSEGV");
  REQUIRE(of<launch_action::tell_died>(after).size() == 1);
  CHECK(of<launch_action::tell_died>(after)[0].how == "killed by SIGSEGV");
  CHECK(of<launch_action::start>(after).size() == 1);
}

TEST_CASE("a process that does not join in time is killed and started again", "[actors]") {
  launching it;
  const auto who = it.start(it.machine.wanted(0, in(1)), 101);
  CHECK(of<launch_action::kill>(it.machine.late({0, 1}, "nothing was heard")).size() == 1);
  CHECK(of<launch_action::start>(it.machine.died(who, "killed by SIGKILL")).size() == 1);
}

TEST_CASE("an agent that does not report a start in time is killed", "[actors]") {
  launching it;
  it.machine.wanted(0, in(1));
  for (int time = 1; time <= most_failed_starts; ++time) {
    const auto after = it.machine.late({0, 1}, "nothing was heard");
    CHECK(of<launch_action::kill_agent>(after).size() == 1);
    CHECK(of<launch_action::expect>(after).size() == (time < most_failed_starts ? 1 : 0));
    CHECK(of<launch_action::refuse>(after).size() == (time < most_failed_starts ? 0 : 1));
  }
  CHECK(it.machine.late({0, 1}, "nothing was heard").empty());  // reported once
}

TEST_CASE("the second request to end kills processes, the third the agent", "[actors]") {
  launching it;
  const auto who = it.stand(0);
  const auto first = it.machine.over();
  CHECK(of<launch_action::kill>(first).empty());
  CHECK(of<launch_action::end_agent>(first).empty());
  CHECK(it.machine.wanted(1, in(1)).empty());
  CHECK(of<launch_action::kill>(it.machine.over()).size() == 1);
  CHECK(of<launch_action::kill_agent>(it.machine.over()).size() == 1);
  const auto after = it.machine.died(who, "killed by SIGKILL");
  CHECK(of<launch_action::end_agent>(after).size() == 1);
  CHECK(of<launch_action::start>(after).empty());
  CHECK(of<launch_action::quit>(it.machine.agent_gone(0, "it has ended")).size() == 1);
}

TEST_CASE("a process that was just started when the run ends is killed once it is known",
          "[actors]") {
  launching it;
  const auto asked = of<launch_action::start>(it.machine.wanted(0, in(1)));
  CHECK(of<launch_action::end_agent>(it.machine.over()).empty());
  CHECK(of<launch_action::kill>(it.machine.started(asked[0].request, 101)).size() == 1);
  CHECK(of<launch_action::end_agent>(it.machine.died({0, 1}, "killed by SIGKILL")).size() == 1);
}

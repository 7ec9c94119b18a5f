// Processes that outlive the agent or the launcher that started them.

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
  const auto taken = it.machine.take_over({.who = {0, 4}, .which = 7, .pid = 104, .watched = true});
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
  const auto died = it.machine.died(0, 7, "killed by SIGKILL");
  CHECK(of<launch_action::tell_died>(died).size() == 1);
  const auto again = of<launch_action::start>(it.machine.wanted(0, in(2, 2)));
  REQUIRE(again.size() == 1);
  CHECK(again[0].who == process_name{0, 5});
}

TEST_CASE(
    "a process that outlived its launcher is adopted when the agent dies before it joins again",
    "[actors]") {
  launching it{.machine = launch_machine{{0, 0}, home, true}};
  it.machine.take_over({.who = {0, 4}, .which = 7, .pid = 104, .start_time = 9, .watched = true});
  const auto gone = it.machine.agent_gone(0, "the agent is gone");
  CHECK(of<launch_action::start>(gone).empty());
  const auto adopted = of<launch_action::adopt>(gone);
  REQUIRE(adopted.size() == 1);
  CHECK(adopted[0].which == 7);
  CHECK(adopted[0].pid == 104);
  CHECK(adopted[0].start_time == 9);
  REQUIRE(it.machine.joins({0, 4}, 104).empty());
  CHECK(it.machine.joins({0, 4}, 104).empty());  // its answer came too late, and it asks again
}

TEST_CASE("a process that died with its launcher or does not join again is replaced", "[actors]") {
  launching it;
  CHECK(it.machine.take_over({.who = {0, 4}}).empty());
  const auto first = of<launch_action::start>(it.machine.wanted(0, in(2)));
  REQUIRE(first.size() == 1);
  CHECK(first[0].who == process_name{0, 5});
  it.machine.take_over({.who = {1, 2}, .which = 3, .pid = 201, .watched = true});
  it.machine.wanted(1, in(2));
  const auto late = it.machine.late({1, 2}, "it has not come");
  REQUIRE(of<launch_action::kill>(late).size() == 1);
  CHECK(of<launch_action::kill>(late)[0].which == 3);
  const auto again = of<launch_action::start>(it.machine.died(1, 3, "killed by SIGKILL"));
  REQUIRE(again.size() == 1);
  CHECK(again[0].who == process_name{1, 3});
}

TEST_CASE("without adoption, all processes die with their agent, and the next order starts another",
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

TEST_CASE("processes that outlive their agent are adopted by the next one", "[actors]") {
  launching it{.machine = launch_machine{{0, 0}, home, true}};
  it.stand(0);
  const auto asked = of<launch_action::start>(it.machine.wanted(1, in(1)));
  it.machine.started(asked.at(0).request, 7, 201, 77);
  const auto gone = it.machine.agent_gone(0, "the agent is gone");
  const auto adopt = of<launch_action::adopt>(gone);
  REQUIRE(adopt.size() == 2);
  CHECK(gone.size() == 2);
  CHECK(adopt[1].process == 1);
  CHECK(adopt[1].which == 7);
  CHECK(adopt[1].pid == 201);
  CHECK(adopt[1].start_time == 77);
  CHECK(it.machine.here() == std::vector<process_name>{{0, 1}});
  CHECK(it.machine.started(adopt[0].request, adopt[0].which, adopt[0].pid).empty());
  CHECK(it.machine.started(adopt[1].request, 7, 201, 77).empty());
  it.come({1, 1}, 201);  // it had started before
  CHECK(of<launch_action::tell_died>(it.machine.died(1, 7, "killed by SIGKILL")).size() == 1);
}

TEST_CASE("a refused adoption counts as a death", "[actors]") {
  launching it{.machine = launch_machine{{0, 0}, home, true}};
  it.stand(0);
  it.stand(1);
  const auto adopt = of<launch_action::adopt>(it.machine.agent_gone(0, "the agent is gone"));
  REQUIRE(adopt.size() == 2);
  const auto refused = it.machine.refused(adopt[1].request, "it has ended");
  REQUIRE(of<launch_action::tell_died>(refused).size() == 1);
  CHECK(of<launch_action::tell_died>(refused)[0].who == process_name{1, 1});
  CHECK(of<launch_action::start>(it.machine.wanted(1, in(1, 2))).size() == 1);
}

TEST_CASE("a kill that the old agent did not finish is repeated by the next one", "[actors]") {
  launching it{.machine = launch_machine{{0, 0}, home, true}};
  it.stand(0);
  REQUIRE(of<launch_action::kill>(it.machine.wanted(0, in(1, 2))).size() == 1);
  const auto adopt = of<launch_action::adopt>(it.machine.agent_gone(0, "the agent is gone"));
  REQUIRE(adopt.size() == 1);
  const auto adopted = it.machine.started(adopt[0].request, adopt[0].which, adopt[0].pid);
  REQUIRE(of<launch_action::kill>(adopted).size() == 1);
  it.machine.signalled(of<launch_action::kill>(adopted)[0].request);
  const auto after = it.machine.died(0, adopt[0].which, "it has ended");
  CHECK(of<launch_action::tell_died>(after).empty());
  CHECK(of<launch_action::start>(after).size() == 1);
}

TEST_CASE("a process that joined before its agent reported its start is adopted, too", "[actors]") {
  launching it{.machine = launch_machine{{0, 0}, home, true}};
  it.machine.wanted(0, in(1));
  it.machine.wanted(1, in(1));
  REQUIRE(it.machine.joins({0, 1}, 101, 55).empty());
  const auto gone = it.machine.agent_gone(0, "the agent is gone");
  const auto adopt = of<launch_action::adopt>(gone);
  REQUIRE(adopt.size() == 1);
  CHECK(adopt[0].pid == 101);
  CHECK(adopt[0].start_time == 55);
  // The other process is unknown and would be refused.
  REQUIRE(of<launch_action::start>(gone).size() == 1);
  CHECK(of<launch_action::start>(gone)[0].who == process_name{1, 2});
  CHECK_THAT(it.machine.joins({1, 1}, 201), ContainsSubstring("PROCESS-1"));
}

TEST_CASE("an agent that dies at the end of the run gets a successor that ends the processes",
          "[actors]") {
  launching it{.machine = launch_machine{{0, 0}, home, true}};
  it.stand(0);
  it.machine.over();
  const auto gone = it.machine.agent_gone(0, "the agent is gone");
  const auto adopt = of<launch_action::adopt>(gone);
  REQUIRE(adopt.size() == 1);
  CHECK(of<launch_action::quit>(gone).empty());
  it.machine.started(adopt[0].request, adopt[0].which, adopt[0].pid);
  CHECK(of<launch_action::kill>(it.machine.over()).size() == 1);
  const auto died = it.machine.died(0, adopt[0].which, "it has ended");
  CHECK(of<launch_action::end_agent>(died).size() == 1);
  CHECK(of<launch_action::quit>(it.machine.agent_gone(0, "it has ended")).size() == 1);
}

// Where processes are started, and where they go when a host is gone.

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

TEST_CASE("with one agent for each place the end of one is that of its place alone", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home}};
  it.stand(0);
  it.stand(1);
  const auto gone = it.machine.agent_gone(1, "the agent is gone");
  REQUIRE(of<launch_action::tell_died>(gone).size() == 1);
  CHECK(of<launch_action::tell_died>(gone)[0].who == process_name{1, 1});
  CHECK(it.machine.here() == std::vector<process_name>{{0, 1}});
  CHECK(of<launch_action::start>(it.machine.wanted(1, in(1, 2))).size() == 1);
}

TEST_CASE("when its host is gone a place goes on on the first spare that lives", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, false, 2}};
  it.stand(0);
  it.stand(1);
  CHECK(it.machine.host_gone(2, "the first spare is gone").empty());
  const auto gone = it.machine.host_gone(1, "the node is gone");
  CHECK(of<launch_action::tell_died>(gone).size() == 1);
  REQUIRE(of<launch_action::abandon>(gone).size() == 1);  // it may live, beyond a cut
  CHECK(of<launch_action::abandon>(gone)[0].who == process_name{1, 1});
  CHECK(it.machine.host_gone(1, "and again").empty());
  const auto asked = it.machine.wanted(1, in(1, 2));
  const auto moves = of<launch_action::relocate>(asked);
  REQUIRE(moves.size() == 1);
  CHECK(moves[0].from == 1);
  CHECK(moves[0].to == 3);
  CHECK(moves[0].beside.empty());
  CHECK(moves[0].why == "the node is gone");
  REQUIRE(of<launch_action::start>(asked).size() == 1);
  CHECK(of<launch_action::start>(asked)[0].agent == 3);
  CHECK(of<launch_action::start>(asked)[0].who == process_name{1, 2});
  const auto which = it.start(asked, 302);
  it.come({1, 2}, 302);
  // A death there is mended there.
  it.machine.died(1, which, "killed by SIGKILL");
  const auto again = it.machine.wanted(1, in(1, 3));
  CHECK(of<launch_action::relocate>(again).empty());
  CHECK(of<launch_action::start>(again)[0].agent == 3);
}

TEST_CASE("PROCESS-1: who lives on a host that is cut off takes no part any more", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, false, 1}};
  it.stand(0);
  const auto which = it.stand(1);
  it.machine.host_gone(1, "the node is gone");
  const auto asked = it.machine.wanted(1, in(1, 2));
  CHECK_FALSE(it.machine.joins({1, 1}, 201).empty());
  CHECK(it.machine.present({1, 1}).empty());
  CHECK(it.machine.died(1, which + 10, "it was ended").empty());
  CHECK(it.machine.here() == std::vector<process_name>{{0, 1}});
  it.start(asked, 302);
  it.come({1, 2}, 302);
  CHECK(it.machine.withdrawn({1, 1}, "it does not matter").empty());
}

TEST_CASE("where no spare is left a place stands beside another one", "[actors]") {
  launching it{.machine = launch_machine{{0, 1, 2}, home}};
  for (const int p : {0, 1, 2})
    it.stand(p);
  it.machine.host_gone(2, "the node is gone");
  const auto asked = it.machine.wanted(2, in(1, 2));
  REQUIRE(of<launch_action::relocate>(asked).size() == 1);
  CHECK(of<launch_action::relocate>(asked)[0].to == 0);
  CHECK(of<launch_action::relocate>(asked)[0].beside == std::vector{0});
  it.start(asked, 302);
  it.come({2, 2}, 302);
  // Another host is gone: the one that has fewest takes it.
  it.machine.host_gone(1, "this node is gone, too");
  const auto last = it.machine.wanted(1, in(1, 3));
  CHECK(of<launch_action::relocate>(last)[0].beside == std::vector{0, 2});
  // With an agent everybody dies whom it has started.
  it.start(last, 202);
  it.come({1, 2}, 202);
  CHECK(of<launch_action::tell_died>(it.machine.agent_gone(0, "the agent is gone")).size() == 3);
}

TEST_CASE("a place rather stands where neither its keeper is nor whose states it keeps",
          "[actors]") {
  launching it{.machine = launch_machine{{0, 1, 2, 3}, home}};
  for (const int p : {0, 1, 2, 3})
    it.stand(p);
  it.machine.kept_in({1, 0, 3, 2});
  it.machine.host_gone(1, "the node is gone");
  CHECK(of<launch_action::relocate>(it.machine.wanted(1, in(1, 2)))[0].to == 2);
}

TEST_CASE("with the last host the run ends, for each successor", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home}};
  it.stand(0);
  it.stand(1);
  it.machine.host_gone(0, "the first is gone");
  it.start(it.machine.wanted(0, in(1, 2)), 102);
  it.come({0, 2}, 102);
  const auto gone = it.machine.host_gone(1, "the second is gone");
  CHECK(of<launch_action::tell_died>(gone).size() == 2);
  for (const std::uint64_t number : {2, 3}) {
    const auto asked = it.machine.wanted(1, in(number));
    CHECK(of<launch_action::start>(asked).empty());
    REQUIRE(of<launch_action::refuse>(asked).size() == 1);
    CHECK(of<launch_action::refuse>(asked)[0].why == "the second is gone");
  }
}

TEST_CASE("a host that comes back takes a place that shares one", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home}};
  it.stand(0);
  it.stand(1);
  it.machine.host_gone(1, "the node is gone");
  it.start(it.machine.wanted(1, in(1, 2)), 202);
  it.come({1, 2}, 202);
  const auto offers = of<launch_action::offer_move>(it.machine.host_back(1));
  REQUIRE(offers.size() == 1);
  CHECK(offers[0].who == process_name{1, 2});
  CHECK(offers[0].to == 1);
  // The supervisor asks for it when its states are kept.
  const auto kills = of<launch_action::kill>(it.machine.wanted(1, in(1, 3)));
  REQUIRE(kills.size() == 1);
  CHECK(kills[0].agent == 0);
  it.machine.signalled(kills[0].request);
  const auto after = it.machine.died(1, kills[0].which, "killed by SIGKILL");
  CHECK(of<launch_action::tell_died>(after).empty());
  REQUIRE(of<launch_action::start>(after).size() == 1);
  CHECK(of<launch_action::start>(after)[0].agent == 1);
  CHECK(of<launch_action::relocate>(after)[0].to == 1);
  it.start(after, 203);
  it.come({1, 3}, 203);
  CHECK(of<launch_action::offer_move>(it.machine.host_back(1)).empty());  // nobody shares
}

TEST_CASE("a move is offered when everybody stands and to each supervisor", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home}};
  it.stand(0);
  it.stand(1);
  it.machine.host_gone(1, "the node is gone");
  const auto asked = it.machine.wanted(1, in(1, 2));
  CHECK(of<launch_action::offer_move>(it.machine.host_back(1)).empty());
  it.start(asked, 202);
  REQUIRE(it.machine.joins({1, 2}, 202).empty());
  CHECK(of<launch_action::offer_move>(it.connect(it.machine.present({1, 2}))).size() == 1);
  CHECK(of<launch_action::offer_move>(it.machine.wanted(0, in(2))).empty());
  CHECK(of<launch_action::offer_move>(it.machine.wanted(1, in(2))).size() == 1);
}

TEST_CASE("an offer to move is withdrawn when that host is gone again", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home}};
  it.stand(0);
  it.stand(1);
  it.machine.host_gone(1, "the node is gone");
  it.start(it.machine.wanted(1, in(1, 2)), 202);
  it.come({1, 2}, 202);
  REQUIRE(of<launch_action::offer_move>(it.machine.host_back(1)).size() == 1);
  const auto gone = it.machine.host_gone(1, "the node is gone once more");
  const auto withdrawn = of<launch_action::withdraw_offer>(gone);
  REQUIRE(withdrawn.size() == 1);
  CHECK(withdrawn[0].who == process_name{1, 2});
  CHECK(of<launch_action::offer_move>(gone).empty());
  // The next time it is there it is offered anew.
  CHECK(of<launch_action::offer_move>(it.machine.host_back(1)).size() == 1);
}

TEST_CASE("a host that comes back is as good as a spare", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, false, 1}};
  it.stand(0);
  it.stand(1);
  it.machine.host_gone(1, "the node is gone");
  it.start(it.machine.wanted(1, in(1, 2)), 202);
  it.come({1, 2}, 202);
  CHECK(of<launch_action::offer_move>(it.machine.host_back(1)).empty());
  it.machine.host_gone(0, "this one is gone");
  const auto asked = it.machine.wanted(0, in(1, 3));
  CHECK(of<launch_action::relocate>(asked)[0].to == 1);
  CHECK(of<launch_action::relocate>(asked)[0].beside.empty());
}

TEST_CASE("where both hosts refuse before anybody has stood the launcher ends", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home}};
  it.machine.wanted(0, in(1));
  it.machine.wanted(1, in(1));
  CHECK(of<launch_action::refuse>(it.machine.host_refuses(0, "another build")).size() == 2);
  CHECK(it.machine.host_refuses(1, "another build").empty());
  CHECK(of<launch_action::quit>(it.machine.over()).size() == 1);
}

TEST_CASE("a host on which a place cannot stand is left for another one", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, false, 2}};
  it.stand(0);
  it.stand(1);
  it.machine.host_gone(1, "the node is gone");
  // The first spare has not the data.
  auto asked = it.machine.wanted(1, in(1, 2));
  auto which = it.start(asked, 202);
  REQUIRE(it.machine.joins({1, 2}, 202).empty());
  const auto withdrawn = it.machine.withdrawn({1, 2}, "no data set there");
  CHECK(of<launch_action::refuse>(withdrawn).empty());
  const auto killed = of<launch_action::kill>(withdrawn);
  REQUIRE(killed.size() == 1);
  it.machine.signalled(killed[0].request);
  asked = it.machine.died(1, which, "exit code 2");
  REQUIRE(of<launch_action::relocate>(asked).size() == 1);
  CHECK(of<launch_action::relocate>(asked)[0].to == 3);
  CHECK(of<launch_action::relocate>(asked)[0].why == "no data set there");
  // On the second it dies again and again.
  for (int n = 1; n <= most_failed_starts; ++n)
    asked = it.machine.died(1, it.start(asked, 202 + n), "exit code 7");
  CHECK(of<launch_action::refuse>(asked).empty());
  CHECK(of<launch_action::relocate>(asked)[0].beside == std::vector{0});
  // The agent of the last refuses: nobody is left to be tried.
  const auto refusals = of<launch_action::refuse>(
      it.machine.refused(of<launch_action::start>(asked)[0].request, "no memory"));
  REQUIRE(refusals.size() == 1);
  CHECK(refusals[0].why == "no memory");
}

TEST_CASE("a place that computed wrong bits goes to another host and does not come back",
          "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, false, 1}};
  it.stand(0);
  const auto which = it.stand(1);
  const auto left = it.machine.wanted(1, in(1, 2), true);
  const auto avoided = of<launch_action::avoid>(left);
  REQUIRE(avoided.size() == 1);
  CHECK(avoided[0].process == 1);
  CHECK(avoided[0].agent == 1);
  const auto killed = of<launch_action::kill>(left);
  REQUIRE(killed.size() == 1);
  it.machine.signalled(killed[0].request);
  auto asked = it.machine.died(1, which, "killed by SIGKILL");
  REQUIRE(of<launch_action::relocate>(asked).size() == 1);
  CHECK(of<launch_action::relocate>(asked)[0].to == 2);
  CHECK_THAT(of<launch_action::relocate>(asked)[0].why, ContainsSubstring("wrong bits"));
  it.start(asked, 302);
  it.come({1, 2}, 302);
  // The other one rather shares than takes it to where it was.
  asked = it.machine.host_gone(2, "the node is gone");
  asked = it.machine.wanted(1, in(1, 3));
  REQUIRE(of<launch_action::start>(asked).size() == 1);
  CHECK(of<launch_action::start>(asked)[0].agent == 0);
}

TEST_CASE("a successor gives no place back to the host where it computed wrong bits", "[actors]") {
  // Both stand on host 0; host 1 has none.
  const auto offers = [](bool knows) {
    launching it{.machine = launch_machine{{0, 1}, home}};
    if (knows)
      it.machine.avoid(1, 1);
    it.machine.avoid(1, 7);  // which is none of this run's
    it.machine.take_over({.who = {0, 1}, .agent = 0, .which = 1, .pid = 101, .watched = true});
    it.machine.take_over({.who = {1, 2}, .agent = 0, .which = 2, .pid = 202, .watched = true});
    it.machine.wanted(0, in(2));
    it.machine.wanted(1, in(2));
    it.come({0, 1}, 101);
    REQUIRE(it.machine.joins({1, 2}, 202).empty());
    std::vector<process_name> out;
    for (const auto& x : of<launch_action::offer_move>(it.connect(it.machine.present({1, 2}))))
      out.push_back(x.who);
    return out;
  };
  CHECK(offers(false) == std::vector<process_name>{{1, 2}});
  CHECK(offers(true) == std::vector<process_name>{{0, 1}});
}

TEST_CASE("a successor has a place move that still stands where it computed wrong bits",
          "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, false, 1}};
  it.machine.avoid(1, 1);
  it.machine.take_over({.who = {0, 1}, .agent = 0, .which = 1, .pid = 101, .watched = true});
  it.machine.take_over({.who = {1, 1}, .agent = 1, .which = 1, .pid = 201, .watched = true});
  it.machine.wanted(0, in(2));
  it.machine.wanted(1, in(2));
  it.come({0, 1}, 101);
  REQUIRE(it.machine.joins({1, 1}, 201).empty());
  const auto offers = of<launch_action::offer_move>(it.connect(it.machine.present({1, 1})));
  REQUIRE(offers.size() == 1);
  CHECK(offers[0].who == process_name{1, 1});
  CHECK(offers[0].to == 2);
}

TEST_CASE("with one host a place that computed wrong bits is started where it was", "[actors]") {
  launching it;
  it.stand(0);
  const auto which = it.stand(1);
  const auto left = it.machine.wanted(1, in(1, 2), true);
  CHECK(of<launch_action::avoid>(left).empty());
  it.machine.signalled(of<launch_action::kill>(left).at(0).request);
  const auto asked = it.machine.died(1, which, "killed by SIGKILL");
  CHECK(of<launch_action::relocate>(asked).empty());
  CHECK(of<launch_action::start>(asked).at(0).agent == 0);
}

TEST_CASE("a host that does not serve at first refuses the run, spare or not", "[actors]") {
  for (const int host : {1, 2}) {
    launching it{.machine = launch_machine{{0, 1}, home, false, 1}};
    const auto asked = it.machine.wanted(0, in(1));
    const auto refusals = of<launch_action::refuse>(it.machine.host_refuses(host, "it is busy"));
    REQUIRE(refusals.size() == 1);
    CHECK(refusals[0].of_host);
    CHECK(refusals[0].agent == host);
    CHECK(refusals[0].why == "it is busy");
    const auto later = it.machine.wanted(1, in(1));
    CHECK(of<launch_action::start>(later).empty());
    CHECK(of<launch_action::refuse>(later).size() == 1);
    const auto kills = of<launch_action::kill>(it.machine.over());
    CHECK(kills.empty());  // not known yet
    CHECK(of<launch_action::kill>(
              it.machine.started(of<launch_action::start>(asked)[0].request, 1, 101))
              .size()
          == 1);
    CHECK(of<launch_action::end_agent>(it.machine.died(0, 1, "killed by SIGKILL")).size() == 2);
  }
}

TEST_CASE("a spare that is late with its refusal is a host that is gone", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, false, 1}};
  it.stand(0);
  it.stand(1);
  CHECK(it.machine.host_refuses(2, "it is busy").empty());
  it.machine.host_gone(1, "the node is gone");
  CHECK(of<launch_action::relocate>(it.machine.wanted(1, in(1, 2)))[0].to == 0);
}

TEST_CASE("the launcher ends when the agents of all hosts have", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, false, 1}};
  const auto which = it.stand(0);
  it.machine.host_gone(1, "the node is gone");
  it.machine.over();
  const auto ends = of<launch_action::end_agent>(it.machine.died(0, which, "exit code 0"));
  REQUIRE(ends.size() == 2);
  CHECK(ends[0].agent == 0);
  CHECK(ends[1].agent == 2);
  CHECK(of<launch_action::quit>(it.machine.agent_gone(0, "it has ended")).empty());
  CHECK(of<launch_action::quit>(it.machine.agent_gone(2, "it has ended")).size() == 1);
}

TEST_CASE("a successor finds a place where it has moved to and moves one whose host is gone",
          "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, false, 1}};
  it.machine.take_over({.who = {0, 4}, .agent = 2, .which = 7, .pid = 104, .watched = true});
  it.machine.take_over({.who = {1, 3}, .agent = 1});
  CHECK(it.machine.agent_of(0) == 2);
  CHECK(it.machine.host_refuses(1, "it cannot be reached").empty());  // the run has begun long ago
  const auto asked = it.machine.wanted(1, in(2));
  const auto moves = of<launch_action::relocate>(asked);
  REQUIRE(moves.size() == 1);
  CHECK(moves[0].from == 1);
  CHECK(moves[0].to == 0);
  CHECK(moves[0].why == "it cannot be reached");
  REQUIRE(of<launch_action::start>(asked).size() == 1);
  CHECK(of<launch_action::start>(asked)[0].who == process_name{1, 4});
  const auto late = of<launch_action::kill>(it.machine.late({0, 4}, "it has not come"));
  REQUIRE(late.size() == 1);
  CHECK(late[0].agent == 2);
}

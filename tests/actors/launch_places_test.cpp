// Places of processes on hosts, and their moves after the loss of a host.

#include "actors/process/launch_machine.hpp"
#include "tests/support/launching.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::actors;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using messages::process_name;

TEST_CASE("with one agent per place, the end of an agent affects its place only", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home}};
  it.stand(0);
  it.stand(1);
  const auto gone = it.machine.agent_gone(1, "the agent is gone");
  REQUIRE(of<launch_action::tell_died>(gone).size() == 1);
  CHECK(of<launch_action::tell_died>(gone)[0].who == process_name{1, 1});
  CHECK(it.machine.here() == std::vector<process_name>{{0, 1}});
  CHECK(of<launch_action::start>(it.machine.wanted(1, in(1, 2))).size() == 1);
}

TEST_CASE("after the loss of its host a place continues on the first living spare", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, 2}};
  it.stand(0);
  it.stand(1);
  CHECK(it.machine.host_gone(2, "the first spare is gone").empty());
  const auto gone = it.machine.host_gone(1, "the node is gone");
  CHECK(of<launch_action::tell_died>(gone).size() == 1);
  REQUIRE(of<launch_action::abandon>(gone).size() == 1);  // it may live behind a network cut
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
  const auto who = it.start(asked, 302);
  it.come({1, 2}, 302);
  // A death there is repaired there.
  it.machine.died(who, "killed by SIGKILL");
  const auto again = it.machine.wanted(1, in(1, 3));
  CHECK(of<launch_action::relocate>(again).empty());
  CHECK(of<launch_action::start>(again)[0].agent == 3);
}

TEST_CASE("PROCESS-1: processes on a host that was cut off are refused", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, 1}};
  it.stand(0);
  it.stand(1);
  it.machine.host_gone(1, "the node is gone");
  const auto asked = it.machine.wanted(1, in(1, 2));
  CHECK_FALSE(it.machine.joins({1, 1}, 201).empty());
  CHECK(it.machine.present({1, 1}).empty());
  CHECK(it.machine.died({1, 1}, "it was ended").empty());
  CHECK(it.machine.here() == std::vector<process_name>{{0, 1}});
  it.start(asked, 302);
  it.come({1, 2}, 302);
  CHECK(it.machine.withdrawn({1, 1}, "it does not matter").empty());
}

TEST_CASE("without a spare a place shares the host of another one", "[actors]") {
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
  // After the loss of another host, the one with the fewest places takes over.
  it.machine.host_gone(1, "this node is gone, too");
  const auto last = it.machine.wanted(1, in(1, 3));
  CHECK(of<launch_action::relocate>(last)[0].beside == std::vector{0, 2});
  // All processes of an agent die with it.
  it.start(last, 202);
  it.come({1, 2}, 202);
  CHECK(of<launch_action::tell_died>(it.machine.agent_gone(0, "the agent is gone")).size() == 3);
}

TEST_CASE("a place avoids the hosts of its keeper and of the states that it keeps", "[actors]") {
  launching it{.machine = launch_machine{{0, 1, 2, 3}, home}};
  for (const int p : {0, 1, 2, 3})
    it.stand(p);
  it.machine.kept_in({1, 0, 3, 2});
  it.machine.host_gone(1, "the node is gone");
  CHECK(of<launch_action::relocate>(it.machine.wanted(1, in(1, 2)))[0].to == 2);
}

namespace {

/// Two places on each of two hosts, and two spares with as many slots.
launching with_two_places_each(std::vector<runtime::host_slots> hosts = {}) {
  if (hosts.empty())
    hosts.resize(4, {.slots = 2});
  launching out{.machine = launch_machine{{0, 0, 1, 1}, home, 2, std::move(hosts)}};
  for (const int p : {0, 1, 2, 3})
    out.stand(p);
  return out;
}

/// The place starts again where the machine decides; returns that agent.
int restart(launching& it, int process, std::uint32_t incarnation) {
  const auto asked = it.machine.wanted(process, in(1, incarnation));
  const std::int64_t pid = 1000 * (process + 1) + incarnation;
  it.start(asked, pid);
  it.come({process, incarnation}, pid);
  return it.machine.agent_of(process);
}

}  // namespace

TEST_CASE("the places of a lost host stay together on a spare with enough slots", "[actors]") {
  auto it = with_two_places_each();
  it.machine.host_gone(1, "the node is gone");
  CHECK(restart(it, 2, 2) == 2);
  CHECK(restart(it, 3, 2) == 2);  // not on the second spare
  CHECK(of<launch_action::offer_move>(it.machine.host_back(1)).empty());
}

TEST_CASE("without spares the places of a lost host return to it", "[actors]") {
  auto it = with_two_places_each();
  it.machine.host_gone(2, "the spare is gone");
  it.machine.host_gone(3, "this spare, too");
  it.machine.host_gone(0, "the node is gone");
  CHECK(restart(it, 0, 2) == 1);
  const auto asked = it.machine.wanted(1, in(1, 2));
  CHECK(of<launch_action::relocate>(asked)[0].beside == std::vector{0, 2, 3});
  it.start(asked, 2002);
  it.come({1, 2}, 2002);
  const auto offers = of<launch_action::offer_move>(it.machine.host_back(0));
  REQUIRE(offers.size() == 1);
  CHECK(offers[0].who == process_name{1, 2});
  CHECK(offers[0].to == 0);
}

TEST_CASE("places stay on hosts with unequal slots", "[actors]") {
  launching it{.machine = launch_machine{{0, 1, 1, 1}, home, 0, {{.slots = 1}, {.slots = 3}}}};
  for (const int p : {0, 1, 2})
    it.stand(p);
  const auto asked = it.machine.wanted(3, in(1));
  it.start(asked, 401);
  REQUIRE(it.machine.joins({3, 1}, 401).empty());
  const auto stands = it.machine.present({3, 1});
  CHECK(of<launch_action::tell_started>(stands).size() == 1);
  CHECK(of<launch_action::offer_move>(stands).empty());
}

TEST_CASE("a place prefers a failure domain without its keeper", "[actors]") {
  const auto moves_to = [](const std::string& first_spare, const std::string& second_spare) {
    auto it = with_two_places_each({{.slots = 2, .domain = "x"},
                                    {.slots = 2, .domain = "y"},
                                    {.slots = 2, .domain = first_spare},
                                    {.slots = 2, .domain = second_spare}});
    it.machine.kept_in({2, 3, 0, 1});
    it.machine.host_gone(1, "the node is gone");
    return restart(it, 2, 2);
  };
  CHECK(moves_to("x", "y") == 3);
  CHECK(moves_to("y", "x") == 2);
  CHECK(moves_to("x", "x") == 2);
  CHECK(moves_to("", "x") == 2);  // the host alone is its domain
}

TEST_CASE("the loss of the last host ends the run, for each successor", "[actors]") {
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

TEST_CASE("a host that comes back gets a place that shares a host", "[actors]") {
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
  // The supervisor orders the move once the states are kept.
  const auto kills = of<launch_action::kill>(it.machine.wanted(1, in(1, 3)));
  REQUIRE(kills.size() == 1);
  CHECK(kills[0].agent == 0);
  it.machine.signalled(kills[0].request);
  const auto after = it.machine.died(kills[0].who, "killed by SIGKILL");
  CHECK(of<launch_action::tell_died>(after).empty());
  REQUIRE(of<launch_action::start>(after).size() == 1);
  CHECK(of<launch_action::start>(after)[0].agent == 1);
  CHECK(of<launch_action::relocate>(after)[0].to == 1);
  it.start(after, 203);
  it.come({1, 3}, 203);
  CHECK(of<launch_action::offer_move>(it.machine.host_back(1)).empty());  // no places share a host
}

TEST_CASE("a move is offered once all processes are ready, and to each supervisor", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home}};
  it.stand(0);
  it.stand(1);
  it.machine.host_gone(1, "the node is gone");
  const auto asked = it.machine.wanted(1, in(1, 2));
  CHECK(of<launch_action::offer_move>(it.machine.host_back(1)).empty());
  it.start(asked, 202);
  REQUIRE(it.machine.joins({1, 2}, 202).empty());
  CHECK(of<launch_action::offer_move>(it.machine.present({1, 2})).size() == 1);
  CHECK(of<launch_action::offer_move>(it.machine.wanted(0, in(2))).empty());
  CHECK(of<launch_action::offer_move>(it.machine.wanted(1, in(2))).size() == 1);
}

TEST_CASE("an offer to move is withdrawn when that host is lost again", "[actors]") {
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
  // The next return of the host repeats the offer.
  CHECK(of<launch_action::offer_move>(it.machine.host_back(1)).size() == 1);
}

TEST_CASE("a host that comes back counts as a spare", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, 1}};
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

TEST_CASE("if both hosts refuse before any process was ready the launcher ends", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home}};
  it.machine.wanted(0, in(1));
  it.machine.wanted(1, in(1));
  CHECK(of<launch_action::refuse>(it.machine.host_refuses(0, "another build")).size() == 2);
  CHECK(it.machine.host_refuses(1, "another build").empty());
  CHECK(of<launch_action::quit>(it.machine.over()).size() == 1);
}

TEST_CASE("a place that cannot run on one host moves to another", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, 2}};
  it.stand(0);
  it.stand(1);
  it.machine.host_gone(1, "the node is gone");
  // The first spare lacks the data.
  auto asked = it.machine.wanted(1, in(1, 2));
  auto who = it.start(asked, 202);
  REQUIRE(it.machine.joins({1, 2}, 202).empty());
  const auto withdrawn = it.machine.withdrawn({1, 2}, "no data set there");
  CHECK(of<launch_action::refuse>(withdrawn).empty());
  const auto killed = of<launch_action::kill>(withdrawn);
  REQUIRE(killed.size() == 1);
  it.machine.signalled(killed[0].request);
  asked = it.machine.died(who, "exit code 2");
  REQUIRE(of<launch_action::relocate>(asked).size() == 1);
  CHECK(of<launch_action::relocate>(asked)[0].to == 3);
  CHECK(of<launch_action::relocate>(asked)[0].why == "no data set there");
  // On the second the process dies again and again.
  for (int n = 1; n <= most_failed_starts; ++n)
    asked = it.machine.died(it.start(asked, 202 + n), "exit code 7");
  CHECK(of<launch_action::refuse>(asked).empty());
  CHECK(of<launch_action::relocate>(asked)[0].beside == std::vector{0});
  // The agent of the last host refuses: there is no host left.
  const auto refusals = of<launch_action::refuse>(
      it.machine.refused(of<launch_action::start>(asked)[0].request, "no memory"));
  REQUIRE(refusals.size() == 1);
  CHECK(refusals[0].why == "no memory");
}

TEST_CASE("a place with wrong bits moves to another host and does not return", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, 1}};
  it.stand(0);
  const auto who = it.stand(1);
  const auto left = it.machine.wanted(1, in(1, 2), true);
  const auto avoided = of<launch_action::avoid>(left);
  REQUIRE(avoided.size() == 1);
  CHECK(avoided[0].process == 1);
  CHECK(avoided[0].agent == 1);
  const auto killed = of<launch_action::kill>(left);
  REQUIRE(killed.size() == 1);
  it.machine.signalled(killed[0].request);
  auto asked = it.machine.died(who, "killed by SIGKILL");
  REQUIRE(of<launch_action::relocate>(asked).size() == 1);
  CHECK(of<launch_action::relocate>(asked)[0].to == 2);
  CHECK_THAT(of<launch_action::relocate>(asked)[0].why, ContainsSubstring("wrong bits"));
  it.start(asked, 302);
  it.come({1, 2}, 302);
  // The other place shares a host rather than start it where it was.
  asked = it.machine.host_gone(2, "the node is gone");
  asked = it.machine.wanted(1, in(1, 3));
  REQUIRE(of<launch_action::start>(asked).size() == 1);
  CHECK(of<launch_action::start>(asked)[0].agent == 0);
}

TEST_CASE("a successor does not move a place back to a host with wrong bits", "[actors]") {
  // Both places are on host 0; host 1 is free.
  const auto offers = [](bool knows) {
    launching it{.machine = launch_machine{{0, 1}, home}};
    if (knows)
      it.machine.avoid(1, 1);
    it.machine.avoid(1, 7);  // of another run
    it.machine.take_over({.who = {0, 1}, .agent = 0, .pid = 101});
    it.machine.take_over({.who = {1, 2}, .agent = 0, .pid = 202});
    it.machine.wanted(0, in(2));
    it.machine.wanted(1, in(2));
    it.come({0, 1}, 101);
    REQUIRE(it.machine.joins({1, 2}, 202).empty());
    std::vector<process_name> out;
    for (const auto& x : of<launch_action::offer_move>(it.machine.present({1, 2})))
      out.push_back(x.who);
    return out;
  };
  CHECK(offers(false) == std::vector<process_name>{{1, 2}});
  CHECK(offers(true) == std::vector<process_name>{{0, 1}});
}

TEST_CASE("a successor moves a place that is still on a host with wrong bits", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, 1}};
  it.machine.avoid(1, 1);
  it.machine.take_over({.who = {0, 1}, .agent = 0, .pid = 101});
  it.machine.take_over({.who = {1, 1}, .agent = 1, .pid = 201});
  it.machine.wanted(0, in(2));
  it.machine.wanted(1, in(2));
  it.come({0, 1}, 101);
  REQUIRE(it.machine.joins({1, 1}, 201).empty());
  const auto offers = of<launch_action::offer_move>(it.machine.present({1, 1}));
  REQUIRE(offers.size() == 1);
  CHECK(offers[0].who == process_name{1, 1});
  CHECK(offers[0].to == 2);
}

TEST_CASE("with one host, a place with wrong bits restarts on it", "[actors]") {
  launching it;
  it.stand(0);
  const auto who = it.stand(1);
  const auto left = it.machine.wanted(1, in(1, 2), true);
  CHECK(of<launch_action::avoid>(left).empty());
  it.machine.signalled(of<launch_action::kill>(left).at(0).request);
  const auto asked = it.machine.died(who, "killed by SIGKILL");
  CHECK(of<launch_action::relocate>(asked).empty());
  CHECK(of<launch_action::start>(asked).at(0).agent == 0);
}

TEST_CASE("a host that refuses at the start refuses the run, even as a spare", "[actors]") {
  for (const int host : {1, 2}) {
    launching it{.machine = launch_machine{{0, 1}, home, 1}};
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
    CHECK(kills.empty());  // unknown yet
    CHECK(
        of<launch_action::kill>(it.machine.started(of<launch_action::start>(asked)[0].request, 101))
            .size()
        == 1);
    CHECK(of<launch_action::end_agent>(it.machine.died({0, 1}, "killed by SIGKILL")).size() == 2);
  }
}

TEST_CASE("a spare with a late refusal counts as a lost host", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, 1}};
  it.stand(0);
  it.stand(1);
  CHECK(it.machine.host_refuses(2, "it is busy").empty());
  it.machine.host_gone(1, "the node is gone");
  CHECK(of<launch_action::relocate>(it.machine.wanted(1, in(1, 2)))[0].to == 0);
}

TEST_CASE("the launcher ends with the agents of all hosts", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, 1}};
  const auto who = it.stand(0);
  it.machine.host_gone(1, "the node is gone");
  it.machine.over();
  const auto ends = of<launch_action::end_agent>(it.machine.died(who, "exit code 0"));
  REQUIRE(ends.size() == 2);
  CHECK(ends[0].agent == 0);
  CHECK(ends[1].agent == 2);
  CHECK(of<launch_action::quit>(it.machine.agent_gone(0, "it has ended")).empty());
  CHECK(of<launch_action::quit>(it.machine.agent_gone(2, "it has ended")).size() == 1);
}

TEST_CASE("a successor finds moved places, and moves a place without its host", "[actors]") {
  launching it{.machine = launch_machine{{0, 1}, home, 1}};
  it.machine.take_over({.who = {0, 4}, .agent = 2, .pid = 104});
  it.machine.take_over({.who = {1, 3}, .agent = 1});
  CHECK(it.machine.agent_of(0) == 2);
  CHECK(it.machine.host_refuses(1, "it cannot be reached").empty());  // the run began long ago
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

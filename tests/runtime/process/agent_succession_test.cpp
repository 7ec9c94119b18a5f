// Succession of the supervisor's process, event by event.

#include "runtime/core/error.hpp"
#include "runtime/process/agent_state.hpp"
#include "runtime/process/run_succession.hpp"

#include <catch2/catch_test_macros.hpp>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

using namespace troupe::runtime;
using namespace std::chrono_literals;

namespace {

constexpr peer_id supervisor{1}, successor{2}, other{3};
const process_id supervisors{.pid = 12, .start_time = 3456};
const process_end by_kill{.exit_code = {}, .signal = SIGKILL};

template <class Action>
std::vector<Action> all_of(const agent_actions& all) {
  std::vector<Action> out;
  for (const auto& one : all)
    if (const auto* const x = std::get_if<Action>(&one))
      out.push_back(*x);
  return out;
}

template <class Told>
bool tells(const agent_actions& all, peer_id to) {
  for (const auto& one : all_of<agent_action::answer>(all))
    if (one.to == to && std::holds_alternative<Told>(one.what))
      return true;
  return false;
}

/// An agent with the supervisor's process as its owner.
struct led {
  agent_state agent{{.owner_patience = 100s}, {}};
  agent_state::time now{};
  agent_state::time gone{};  ///< when the current owner was lost

  led() {
    agent.joined(supervisor);
    REQUIRE(tells<succession_agreed>(says_succeed(supervisor, supervisors), supervisor));
    pass(0s);
  }
  agent_actions says_succeed(peer_id who, const process_id& process) {
    return agent.asked(who,
                       succeed_owner{.request = 5,
                                     .command = {"/bin/x", "again"},
                                     .environment = {"A=b"},
                                     .output = "/logs/x",
                                     .process = process,
                                     .silence = 5});
  }
  agent_actions pass(std::chrono::seconds x) { return agent.time_is(now += x); }
  /// Passes the time in seconds, and reports the time after each.
  agent_actions pass_slowly(int seconds) {
    agent_actions out;
    for (int i = 0; i < seconds; ++i)
      for (auto& one : pass(1s))
        out.push_back(std::move(one));
    return out;
  }
  agent_action::start start_of(const agent_actions& all) {
    const auto starts = all_of<agent_action::start>(all);
    REQUIRE(starts.size() == 1);
    CHECK(starts[0].what.name == successor_name);
    CHECK(starts[0].what.command == std::vector<std::string>{"/bin/x", "again"});
    REQUIRE(starts[0].what.environment.size() == 2);
    CHECK(starts[0].what.environment[0] == "A=b");
    CHECK(starts[0].what.environment[1] == told_when_gone(gone));
    CHECK(starts[0].what.output == "/logs/x");
    return starts[0];
  }
  /// Loses the supervisor's process, and starts its successor.
  process_id succeed_once() {
    CHECK(all_of<agent_action::fence>(agent.left(supervisor, now)).size() == 1);
    const auto start = start_of(agent.fenced());
    const process_id process{.pid = 100 + int(start.what.which), .start_time = 1};
    agent.started(start, process);
    return process;
  }
};

}  // namespace

TEST_CASE("AGENT-4: a successor starts after its predecessor was killed and has ended",
          "[process]") {
  led x;
  x.gone = x.now;
  const auto gone = x.agent.left(supervisor, x.now);
  REQUIRE(all_of<agent_action::fence>(gone).size() == 1);
  CHECK(all_of<agent_action::fence>(gone)[0].process == supervisors);
  CHECK(all_of<agent_action::start>(gone).empty());
  CHECK(all_of<agent_action::start>(x.pass_slowly(20)).empty());
  CHECK(x.start_of(x.agent.fenced()).what.which == 1);
  CHECK(x.agent.fenced().empty());
}

TEST_CASE("a process with heartbeats keeps its role; a silent one is replaced", "[process]") {
  led x;
  for (int i = 0; i < 50; ++i) {
    CHECK(all_of<agent_action::fence>(x.pass(1s)).empty());
    CHECK(x.agent.asked(supervisor, owner_still_there{}).empty());
  }
  // The timeout is five whole slices.
  CHECK(all_of<agent_action::fence>(x.pass_slowly(5)).empty());
  CHECK(all_of<agent_action::fence>(x.pass_slowly(1)).size() == 1);
}

TEST_CASE("a pause of the agent itself counts as one slice", "[process]") {
  led x;
  CHECK(all_of<agent_action::fence>(x.pass(3600s)).empty());
  x.agent.asked(supervisor, owner_still_there{});  // a heartbeat that arrived meanwhile
  CHECK(all_of<agent_action::fence>(x.pass_slowly(5)).empty());
}

TEST_CASE("only heartbeats of the supervisor's process itself count", "[process]") {
  led x;
  x.agent.joined(other);
  agent_actions all;
  for (int i = 0; i < 6; ++i) {
    x.agent.asked(other, owner_still_there{});
    for (auto& one : x.pass(1s))
      all.push_back(std::move(one));
  }
  CHECK(all_of<agent_action::fence>(all).size() == 1);
}

TEST_CASE("a successor that requests it is succeeded in turn", "[process]") {
  led x;
  const auto first = x.succeed_once();
  x.agent.joined(successor);
  CHECK(tells<processes_listed>(x.agent.asked(successor, list_processes{1}), successor));
  REQUIRE(tells<succession_agreed>(x.says_succeed(successor, first), successor));
  const auto gone = x.agent.died(successor_name, by_kill, x.now);
  REQUIRE(all_of<agent_action::fence>(gone).size() == 1);
  CHECK(all_of<agent_action::fence>(x.agent.left(successor, x.now)).empty());
  CHECK(x.start_of(x.agent.fenced()).what.which == 2);
}

TEST_CASE("AGENT-4: the next successor waits until the death of the current one is reported",
          "[process]") {
  led x;
  const auto first = x.succeed_once();
  x.agent.joined(successor);
  REQUIRE(tells<succession_agreed>(x.says_succeed(successor, first), successor));
  REQUIRE(all_of<agent_action::fence>(x.agent.left(successor, x.now)).size() == 1);
  CHECK(all_of<agent_action::start>(x.agent.fenced()).empty());  // the predecessor is a zombie
  CHECK(x.start_of(x.agent.died(successor_name, by_kill, x.now)).what.which == 2);
}

TEST_CASE("after three failed successors in a row the agent has no owner", "[process]") {
  led x;
  x.succeed_once();
  for (const int which : {2, 3}) {
    const auto again = x.start_of(x.agent.died(successor_name, by_kill, x.now));
    CHECK(again.what.which == incarnation(which));
    x.agent.started(again, {.pid = which, .start_time = 2});
  }
  const auto last = x.agent.died(successor_name, by_kill, x.now);
  CHECK(all_of<agent_action::start>(last).empty());
  CHECK(all_of<agent_action::say>(last).size() == 2);
  CHECK(x.pass_slowly(99).empty());
  CHECK(all_of<agent_action::kill_all>(x.pass_slowly(2)).size() == 1);
}

TEST_CASE("an agent that gives up withdraws its promise of a successor", "[process]") {
  led x;
  const auto promises = [](const agent_actions& all) {
    std::vector<bool> out;
    for (const auto& one : all_of<agent_action::promise>(all))
      out.push_back(one.given);
    return out;
  };
  CHECK(promises(x.says_succeed(supervisor, supervisors)).empty());  // promised already
  CHECK(promises(x.agent.left(supervisor, x.now)).empty());
  auto again = x.start_of(x.agent.fenced());
  x.agent.joined(successor);
  x.agent.started(again, {.pid = 101, .start_time = 1});
  CHECK(promises(x.says_succeed(successor, {.pid = 101, .start_time = 1}))
        == std::vector<bool>{true});
  CHECK(promises(x.agent.died(successor_name, by_kill, x.now)).empty());
  again = x.start_of(x.agent.fenced());
  again = x.start_of(x.agent.not_started(again, "no such file"));
  again = x.start_of(x.agent.not_started(again, "no such file"));
  CHECK(promises(x.agent.not_started(again, "no such file")) == std::vector<bool>{false});
}

TEST_CASE("an agent that ends withdraws its promise of a successor", "[process]") {
  led x;
  const auto ends = x.agent.told_to_end("a signal");
  REQUIRE(all_of<agent_action::promise>(ends).size() == 1);
  CHECK_FALSE(all_of<agent_action::promise>(ends)[0].given);
  agent_state without({.owner_patience = 100s}, {});
  CHECK(all_of<agent_action::promise>(without.told_to_end("a signal")).empty());
}

TEST_CASE("AGENT-4: a kill that cannot be confirmed is repeated before a successor starts",
          "[process]") {
  led x;
  REQUIRE(all_of<agent_action::fence>(x.agent.left(supervisor, x.now)).size() == 1);
  for (int i = 0; i < 2; ++i) {
    const auto failed = x.agent.not_fenced("too many open files", x.now);
    CHECK(all_of<agent_action::say>(failed).size() == 1);
    CHECK(failed.size() == 1);
    REQUIRE(x.agent.deadline());
    CHECK(*x.agent.deadline() <= x.now + 2s);
    const auto again = x.pass_slowly(2);
    REQUIRE(all_of<agent_action::fence>(again).size() == 1);
    CHECK(all_of<agent_action::fence>(again)[0].process == supervisors);
    CHECK(all_of<agent_action::start>(again).empty());
  }
  SECTION("the process has ended") {
    CHECK(x.start_of(x.agent.fenced()).what.which == 1);
  }
  SECTION("the third attempt fails: the agent gives up") {
    const auto failed = x.agent.not_fenced("too many open files", x.now);
    CHECK(all_of<agent_action::promise>(failed).size() == 1);
    CHECK(all_of<agent_action::fence>(x.pass_slowly(50)).empty());
    CHECK(x.agent.fenced().empty());
    x.agent.joined(other);
    CHECK(tells<succession_agreed>(x.says_succeed(other, {.pid = 99, .start_time = 9}), other));
  }
}

TEST_CASE("a successor that fails to start counts as failed", "[process]") {
  led x;
  x.agent.left(supervisor, x.now);
  auto start = x.start_of(x.agent.fenced());
  start = x.start_of(x.agent.not_started(start, "no such file"));
  start = x.start_of(x.agent.not_started(start, "no such file"));
  CHECK(all_of<agent_action::start>(x.agent.not_started(start, "no such file")).empty());
}

TEST_CASE("a successor has the owner's patience, counted from its start", "[process]") {
  led x;
  x.agent.left(supervisor, x.now);
  x.pass_slowly(90);
  x.agent.started(x.start_of(x.agent.fenced()), {.pid = 101, .start_time = 1});
  CHECK(x.pass_slowly(99).empty());
  CHECK(all_of<agent_action::kill_all>(x.pass_slowly(2)).size() == 1);
}

TEST_CASE("one process at a time can be succeeded", "[process]") {
  led x;
  x.agent.joined(other);
  CHECK(tells<request_refused>(x.says_succeed(other, {.pid = 99, .start_time = 9}), other));
  const auto first = x.succeed_once();
  CHECK(tells<request_refused>(x.says_succeed(other, {.pid = 99, .start_time = 9}), other));
  x.agent.joined(successor);
  CHECK(tells<succession_agreed>(x.says_succeed(successor, first), successor));
}

TEST_CASE("a process that ended the agent has no successor", "[process]") {
  led x;
  x.agent.asked(supervisor, end_agent{7});
  CHECK(all_of<agent_action::fence>(x.agent.left(supervisor, x.now)).empty());
}

TEST_CASE("a successor survives the end of the agent that it requests", "[process]") {
  led x;
  const auto first = x.succeed_once();
  x.agent.joined(successor);
  REQUIRE(tells<succession_agreed>(x.says_succeed(successor, first), successor));
  const auto ends = all_of<agent_action::kill_all>(x.agent.asked(successor, end_agent{8}));
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].spared == successor_name);
  CHECK(tells<agent_ended>(x.agent.nobody_runs(), successor));
}

TEST_CASE("a successor ends with the agent when another peer requests the end", "[process]") {
  led x;
  x.succeed_once();
  x.agent.joined(other);
  const auto ends = all_of<agent_action::kill_all>(x.agent.asked(other, end_agent{8}));
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].spared.empty());
  CHECK_THROWS_AS(x.agent.nobody_runs(), broken_promise);
}

TEST_CASE("a death without an owner is listed to the next owner", "[process]") {
  led x;
  const auto start = all_of<agent_action::start>(
      x.agent.asked(supervisor, start_process{1, "node", 1, {"/bin/x"}, {}, {}}));
  x.agent.started(start.at(0), {.pid = 50, .start_time = 5});
  x.succeed_once();
  x.agent.died("node", by_kill, x.now);
  x.agent.joined(successor);
  const auto told = all_of<agent_action::answer>(x.agent.asked(successor, list_processes{1}));
  const auto listed = std::get<processes_listed>(told.at(0).what).processes;
  REQUIRE(listed.size() == 2);
  CHECK(listed[0].name == "node");
  CHECK(listed[0].ended == by_kill);
  CHECK_FALSE(listed[1].ended);
}

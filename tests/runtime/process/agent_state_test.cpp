#include "runtime/process/agent_state.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <csignal>

using namespace troupe::runtime;
using namespace std::chrono_literals;

namespace {

constexpr peer_id first{1}, second{2}, third{3};
const agent_state::time begin{};
const process_id somebody{.pid = 12, .start_time = 3456};
const process_end killed{.exit_code = {}, .signal = SIGKILL};

start_process started_as(const std::string& name, incarnation which = 1) {
  return {.request = 1,
          .name = name,
          .which = which,
          .command = {"/bin/x"},
          .environment = {},
          .output = {}};
}

template <class Action>
std::vector<Action> those(const agent_actions& all) {
  std::vector<Action> out;
  for (const auto& one : all)
    if (const auto* const x = std::get_if<Action>(&one))
      out.push_back(*x);
  return out;
}

template <class Told>
Told only(const agent_actions& all, peer_id to) {
  const auto answers = those<agent_action::answer>(all);
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].to == to);
  REQUIRE(std::holds_alternative<Told>(answers[0].what));
  return std::get<Told>(answers[0].what);
}

/// An agent with one owner and one process, named `node` by default.
struct with_process {
  agent_state agent{{.owner_patience = 10s}, begin};

  explicit with_process(const std::string& name = "node") {
    CHECK(agent.joined(first).empty());
    start(name);
  }
  incarnation start(const std::string& name, incarnation which = 1) {
    const auto asked = those<agent_action::start>(agent.asked(first, started_as(name, which)));
    REQUIRE(asked.size() == 1);
    return only<process_started>(agent.started(asked[0], somebody), first).which;
  }
};

}  // namespace

TEST_CASE("AGENT-1: an incarnation starts after the previous one has ended", "[process]") {
  with_process x;
  only<request_refused>(x.agent.asked(first, started_as("node")), first);
  const auto told = only<process_died>(x.agent.died("node", killed, begin), first);
  CHECK(told.which == 1);
  CHECK(told.how == killed);
  CHECK(told.process == somebody);
  CHECK(x.start("node", 3) == 3);
  x.agent.died("node", killed, begin);
  CHECK_THROWS_AS(x.agent.died("node", killed, begin), broken_promise);
  CHECK_THROWS_AS(x.agent.died("nobody", killed, begin), broken_promise);
}

TEST_CASE("AGENT-1: a start during the life of the one before waits for its end", "[process]") {
  with_process x;
  x.agent.joined(second);
  CHECK(x.agent.asked(second, started_as("node", 2)).empty());
  only<request_refused>(x.agent.asked(first, started_as("node", 3)), second);  // it is replaced
  const auto begun = those<agent_action::start>(x.agent.died("node", killed, begin));
  REQUIRE(begun.size() == 1);
  CHECK(begun[0].what.which == 3);
  CHECK(only<process_started>(x.agent.started(begun[0], somebody), first).which == 3);
  CHECK(x.agent.asked(second, started_as("node", 4)).empty());
  x.agent.left(second, begin);
  CHECK(those<agent_action::start>(x.agent.died("node", killed, begin)).empty());
}

TEST_CASE("AGENT-1: a start that is reported twice is refused", "[process]") {
  with_process x;
  const agent_action::start again{first, started_as("node", 2)};
  CHECK_THROWS_AS(x.agent.started(again, somebody), broken_promise);
}

TEST_CASE("a program that fails to start leaves its name unchanged", "[process]") {
  agent_state agent({}, begin);
  agent.joined(first);
  const auto asked = those<agent_action::start>(agent.asked(first, started_as("node")));
  CHECK(only<request_refused>(agent.not_started(asked.at(0), "no such file"), first).why
        == "no such file");
  CHECK(only<processes_listed>(agent.asked(first, list_processes{2}), first).processes.empty());
}

TEST_CASE("a signal reaches the requested incarnation only", "[process]") {
  with_process x;
  const signal_process meant{.request = 5, .name = "node", .which = 1, .signal = SIGSTOP};
  const auto signals = those<agent_action::signal>(x.agent.asked(first, meant));
  REQUIRE(signals.size() == 1);
  CHECK(signals[0].process == somebody);
  CHECK(only<process_signalled>(x.agent.signalled(signals[0]), first).request == 5);
  x.agent.died("node", killed, begin);
  only<request_refused>(x.agent.asked(first, meant), first);
  x.start("node", 2);
  only<request_refused>(x.agent.asked(first, meant), first);
  auto nobody = meant;
  nobody.name = "nobody";
  only<request_refused>(x.agent.asked(first, nobody), first);
}

TEST_CASE("a death is reported to every owner and stays in the list", "[process]") {
  with_process x;
  x.agent.joined(second);
  x.agent.joined(third);
  x.agent.asked(second, list_processes{1});
  CHECK(those<agent_action::answer>(x.agent.died("node", killed, begin)).size() == 2);
  const auto listed
      = only<processes_listed>(x.agent.asked(third, list_processes{2}), third).processes;
  REQUIRE(listed.size() == 1);
  CHECK(listed[0].ended == killed);
}

TEST_CASE("AGENT-2: an invalid message closes its sender's connection only", "[process]") {
  with_process x;
  x.agent.joined(second);
  const auto actions = x.agent.misbehaved(second, "garbage");
  CHECK(only<request_refused>(actions, second).request == 0);
  CHECK(those<agent_action::hang_up>(actions).size() == 1);
  CHECK(those<agent_action::say>(actions).size() == 1);
  CHECK(those<agent_action::say>(x.agent.misbehaved(third, "garbage")).empty());  // logged once
  x.agent.left(second, begin);
  CHECK_FALSE(x.agent.deadline());  // the owner is still connected
  CHECK(x.start("other") == 1);
}

TEST_CASE("connections are bounded: a silent peer is disconnected first, an owner stays",
          "[process]") {
  agent_state agent({.most_peers = 2}, begin);
  agent.joined(first);
  agent.asked(first, list_processes{1});
  agent.joined(second);
  CHECK(those<agent_action::hang_up>(agent.joined(third)).at(0).whom == second);
  agent.asked(third, list_processes{1});
  CHECK(those<agent_action::hang_up>(agent.joined(peer_id{4})).at(0).whom == peer_id{4});
}

TEST_CASE("the number of names is bounded", "[process]") {
  agent_state agent({.most_names = 2}, begin);
  agent.joined(first);
  for (const char* name : {"a", "b"})
    agent.started(those<agent_action::start>(agent.asked(first, started_as(name))).at(0), somebody);
  only<request_refused>(agent.asked(first, started_as("c")), first);
  agent.died("a", killed, begin);
  CHECK(those<agent_action::start>(agent.asked(first, started_as("a", 2))).size() == 1);
}

TEST_CASE("AGENT-3: an agent ends after its patience without an owner", "[process]") {
  with_process x;
  CHECK_FALSE(x.agent.deadline());
  x.agent.joined(second);
  x.agent.left(second, begin + 1s);  // a peer that sent no request is not an owner
  CHECK_FALSE(x.agent.deadline());
  x.agent.left(first, begin + 2s);
  CHECK(x.agent.deadline() == begin + 12s);
  CHECK(x.agent.time_is(begin + 11s).empty());
  x.agent.joined(third);  // a successor
  x.agent.asked(third, list_processes{1});
  CHECK(x.agent.time_is(begin + 13s).empty());
  x.agent.left(third, begin + 20s);
  CHECK(those<agent_action::kill_all>(x.agent.time_is(begin + 30s)).size() == 1);
  CHECK(x.agent.is_ending());
}

TEST_CASE("AGENT-3: an agent that never had an owner ends, too", "[process]") {
  agent_state agent({.owner_patience = 10s}, begin);
  agent.joined(first);
  CHECK(agent.time_is(begin + 9s).empty());
  CHECK(those<agent_action::kill_all>(agent.time_is(begin + 10s)).size() == 1);
}

TEST_CASE("AGENT-3: an agent that ends leaves after its last child", "[process]") {
  with_process x;
  CHECK(x.agent.nobody_runs().empty());  // the agent is not ending yet
  CHECK(those<agent_action::kill_all>(x.agent.asked(first, end_agent{9})).size() == 1);
  CHECK(x.agent.told_to_end("again").empty());
  only<request_refused>(x.agent.asked(first, started_as("late")), first);
  CHECK_THROWS_AS(x.agent.nobody_runs(), broken_promise);
  x.agent.died("node", killed, begin);
  const auto last = x.agent.nobody_runs();
  only<agent_ended>(last, first);
  CHECK(std::holds_alternative<agent_action::leave>(last.back()));
}

TEST_CASE("an adopted process is treated like a started one", "[process]") {
  agent_state agent({}, begin);
  agent.joined(first);
  const adopt_process wanted{
      .request = 4, .name = "node", .which = 3, .process = {.pid = 77, .start_time = 7}};
  const auto asked = those<agent_action::adopt>(agent.asked(first, wanted));
  REQUIRE(asked.size() == 1);
  const auto told = only<process_started>(agent.adopted(asked[0]), first);
  CHECK(told == process_started{4, "node", 3, wanted.process});
  only<request_refused>(agent.asked(first, wanted), first);  // it runs already
  only<request_refused>(agent.asked(first, started_as("node", 3)), first);
  const signal_process meant{.request = 5, .name = "node", .which = 3, .signal = SIGKILL};
  CHECK(those<agent_action::signal>(agent.asked(first, meant)).at(0).process == wanted.process);
  const process_end unseen{.exit_code = {}, .unseen = true};
  CHECK(only<process_died>(agent.died("node", unseen, begin), first).how == unseen);
  only<request_refused>(agent.asked(first, wanted), first);  // it has ended
  CHECK(those<agent_action::start>(agent.asked(first, started_as("node", 4))).size() == 1);
}

TEST_CASE("a process that does not run is not adopted, and its name stays unchanged", "[process]") {
  agent_state agent({}, begin);
  agent.joined(first);
  const adopt_process wanted{
      .request = 4, .name = "node", .which = 3, .process = {.pid = 77, .start_time = 7}};
  const auto asked = those<agent_action::adopt>(agent.asked(first, wanted));
  CHECK(only<request_refused>(agent.not_adopted(asked.at(0), "it has ended"), first).request == 4);
  CHECK(only<processes_listed>(agent.asked(first, list_processes{2}), first).processes.empty());
}

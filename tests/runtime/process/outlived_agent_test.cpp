// Processes that outlive their host agent, and successors of the supervisor's process. Real
// processes are killed in turn.

#include "runtime/core/error.hpp"
#include "runtime/process/host_agent.hpp"
#include "runtime/process/host_parts.hpp"
#include "runtime/process/orphaned_agents.hpp"
#include "runtime/process/process_entry.hpp"
#include "runtime/process/segments.hpp"
#include "runtime/process/temporary_run.hpp"
#include "tests/support/players.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <optional>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

agent_client outlived_agent(const held_run_folder& run, int patience = 600'000) {
  return agent_client::start(
      player({agent_word, "run", run.path().string(), std::to_string(patience)}), run.path());
}

process_started start_sleeper(agent_client& by, const std::string& name, incarnation which = 1) {
  by.ask(start_process{.request = 1,
                       .name = name,
                       .which = which,
                       .command = player({"sleep"}),
                       .environment = {},
                       .output = {}});
  return told_by<process_started>(by);
}

void wait_until_gone(agent_client& agent) {
  CHECK_THROWS_AS(
      [&] {
        while (agent.next(long_enough)) {
        }
      }(),
      io_error);
}

void kill_agent_of(agent_client& agent) {
  REQUIRE(soon([&] { return agent.agent().has_value(); }));
  REQUIRE(agent.kill(long_enough));
  wait_until_gone(agent);
}

process_started adopt(agent_client& by, const process_started& whom) {
  by.ask(
      adopt_process{.request = 9, .name = whom.name, .which = whom.which, .process = whom.process});
  return told_by<process_started>(by);
}

void nothing_is_left_of(const held_run_folder& run) {
  CHECK(soon([&] { return !std::filesystem::exists(run.sockets() / agent_name()); }));
  CHECK(soon([&] { return std::filesystem::is_empty(run.processes()); }));
}

/// A run with a leader process; this process reaps orphans, as a front does.
struct led_run {
  scratch_folder above;
  held_run_folder run{above / "run", "test", {"test"}};
  std::optional<child_process> leader;
  pid_t agent = 0, node = 0;

  /// `successor_ends`: successors exit at once; otherwise they report what they find.
  explicit led_run(bool successor_ends = false) {
    REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    std::vector<std::string> words{"leader", run.path().string(), "600000"};
    if (successor_ends)
      words.insert(words.end(), {"exit", "7"});
    else
      words.insert(words.end(), {"troupe:successor", "run", run.path().string(), above / "said"});
    leader.emplace(child_program{.command = player(std::move(words)), .output = above / "out"});
    REQUIRE(soon([&] { return read_text(above / "out").ends_with('\n'); }));
    std::istringstream(read_text(above / "out")) >> agent >> node;
    REQUIRE_FALSE(is_gone(node));
  }
  ~led_run() {
    leader.reset();
    soon([&] {
      kill_parts_of(run.path());
      return processes_of_host(run.path()).empty();
    });
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
  /// Kills the agent only; the leader starts another one.
  void kill_agent() const {
    const auto now = running_agent(run);
    REQUIRE(now);
    ::kill(now->pid, SIGKILL);
  }
  /// The newest successor's report, once it differs from `before`.
  std::string said_other_than(const std::string& before) const {
    const auto file = above / "said";
    const auto text
        = [&] { return std::filesystem::exists(file) ? read_text(file) : std::string(); };
    CHECK(soon([&] { return !text().empty() && text() != before; }));
    return text();
  }
};

}  // namespace

TEST_CASE("a killed agent leaves its processes alive, and the next agent adopts them",
          "[process]") {
  const scratch_folder above;
  const held_run_folder run(above / "run", "test", {"test"});
  auto first = outlived_agent(run);
  const auto started = start_sleeper(first, "node");
  kill_agent_of(first);
  CHECK(is_running(started.process));
  auto second = outlived_agent(run);
  CHECK(adopt(second, started).process == started.process);
  // Its end is seen without an exit status. Then its name can start again.
  second.ask(
      signal_process{.request = 2, .name = "node", .which = started.which, .signal = SIGKILL});
  const auto died = told_by<process_died>(second);
  CHECK(died.process == started.process);
  CHECK(died.how.unseen);
  CHECK(start_sleeper(second, "node", started.which + 1).which == started.which + 1);
  CHECK(first.wait(long_enough)->signal == SIGKILL);
  CHECK(std::filesystem::exists(run.sockets() / agent_name()));
  second.ask(list_processes{3});
  told_by<processes_listed>(second);
  second.ask(end_agent{4});
  CHECK(second.wait(long_enough) == process_end{.exit_code = 0});
  nothing_is_left_of(run);
}

TEST_CASE("an agent that ends on request waits for adopted processes", "[process]") {
  const scratch_folder above;
  const held_run_folder run(above / "run", "test", {"test"});
  auto first = outlived_agent(run);
  const auto started = start_sleeper(first, "node");
  const auto name = segment_prefix(run.record().id) + "window";
  const descriptor segment(::shm_open(name.c_str(), O_RDWR | O_CREAT, 0600));
  REQUIRE(segment);
  kill_agent_of(first);
  auto second = outlived_agent(run);
  adopt(second, started);
  second.ask(end_agent{4});
  told_by<process_died>(second);
  told_by<agent_ended>(second);
  CHECK(is_gone(started.process.pid));
  CHECK(second.wait(long_enough) == process_end{.exit_code = 0});
  CHECK(first.wait(long_enough));
  nothing_is_left_of(run);
  CHECK(::shm_open(name.c_str(), O_RDWR, 0) < 0);
}

TEST_CASE("an ended process cannot be adopted", "[process]") {
  const scratch_folder above;
  const held_run_folder run(above / "run", "test", {"test"});
  auto agent = outlived_agent(run);
  const auto started = start_sleeper(agent, "node");
  ::kill(started.process.pid, SIGKILL);
  told_by<process_died>(agent);
  agent.ask(adopt_process{.request = 9, .name = "other", .which = 1, .process = started.process});
  CHECK(told_by<request_refused>(agent).request == 9);
  auto later = this_process();
  later.start_time += 1;
  agent.ask(adopt_process{.request = 10, .name = "other", .which = 1, .process = later});
  CHECK(told_by<request_refused>(agent).request == 10);
  agent.ask(end_agent{4});
  CHECK(agent.wait(long_enough));
}

TEST_CASE("an adopted process ends with its group", "[process]") {
  const scratch_folder above;
  const held_run_folder run(above / "run", "test", {"test"});
  auto first = outlived_agent(run);
  first.ask(start_process{.request = 1,
                          .name = "node",
                          .command = player({"descendants", above / "pids"}),
                          .environment = {},
                          .output = {}});
  const auto node = told_by<process_started>(first);
  const auto below = descendants_in(above / "pids");
  kill_agent_of(first);
  auto second = outlived_agent(run);
  adopt(second, node);
  ::kill(node.process.pid, SIGKILL);
  told_by<process_died>(second);
  const auto alive
      = [&] { return below.size() - std::count_if(below.begin(), below.end(), is_gone); };
  CHECK(soon([&] { return alive() == 1; }));  // it has left the group
  for (const auto pid : below)
    if (!is_gone(pid))
      ::kill(pid, SIGKILL);
  second.ask(end_agent{4});
  CHECK(second.wait(long_enough) == process_end{.exit_code = 0});
  nothing_is_left_of(run);
}

TEST_CASE("an agent is ended with all parts of its run, also those that it does not know",
          "[process]") {
  const scratch_folder above;
  const held_run_folder run(above / "run", "test", {"test"});
  const auto part = player({"troupe:part", "run", run.path().string()});
  auto first = outlived_agent(run);
  first.ask(start_process{
      .request = 1, .name = "node", .command = part, .environment = {}, .output = {}});
  const auto unknown = told_by<process_started>(first).process;
  kill_agent_of(first);
  auto second = outlived_agent(run);
  second.ask(start_process{
      .request = 1, .name = "node", .command = part, .environment = {}, .output = {}});
  const auto known = told_by<process_started>(second).process;
  // Left by an agent that was killed while it wrote: a successor starts one when its own is killed.
  for (const auto* const name : {".json.partial", ".succession.partial"})
    write_text(run.processes() / (agent_name() + name), "");
  kill_parts_of(run.path());
  CHECK(second.wait(long_enough)->signal == SIGKILL);
  CHECK(soon([&] { return is_gone(unknown.pid) && is_gone(known.pid); }));
  end_agents_of(run.path(), {}, {});  // nothing is left to end, so it only cleans up
  nothing_is_left_of(run);
}

TEST_CASE("a killed supervisor's process has a successor, which has one in turn", "[process]") {
  led_run x;
  x.leader->signal(SIGKILL);
  x.leader->wait();
  const auto first = x.said_other_than("");
  CHECK(first.ends_with(" node runs supervisor runs"));
  // The next owner learns of deaths in between.
  ::kill(x.node, SIGKILL);
  ::kill(std::stoi(first), SIGKILL);
  const auto second = x.said_other_than(first);
  CHECK(second.ends_with(" node ended supervisor runs"));
  // It ends the agent, and lives on to record the end of the run.
  ::kill(std::stoi(second), SIGTERM);
  CHECK(x.said_other_than(second) == "over");
  CHECK(soon([&] { return !running_agent(x.run); }));
  nothing_is_left_of(x.run);
}

TEST_CASE("an agent started by a successor outlives it and starts the next one", "[process]") {
  led_run x;
  x.leader->signal(SIGKILL);
  x.leader->wait();
  const auto first = x.said_other_than("");
  x.kill_agent();
  // The successor is now served by its own agent.
  const auto again = x.said_other_than(first);
  CHECK(std::stoi(again) == std::stoi(first));
  ::kill(std::stoi(again), SIGKILL);
  const auto second = x.said_other_than(again);
  CHECK(std::stoi(second) != std::stoi(first));
  CHECK(second.ends_with(" node runs supervisor runs"));
  CHECK_FALSE(is_gone(x.node));
  x.kill_agent();
  const auto later = x.said_other_than(second);
  ::kill(std::stoi(later), SIGKILL);
  const auto third = x.said_other_than(later);
  CHECK(third.ends_with(" node runs supervisor runs"));
  ::kill(std::stoi(third), SIGTERM);
  CHECK(x.said_other_than(third) == "over");
  CHECK(is_gone(x.node));
  CHECK(soon([&] { return !running_agent(x.run); }));
  nothing_is_left_of(x.run);
}

TEST_CASE(
    "AGENT-4: a process that has lost only its main thread is killed before its successor starts",
    "[process]") {
  const scratch_folder above;
  const held_run_folder run(above / "run", "test", {"test"});
  auto agent = outlived_agent(run);
  child_process headless({.command = player({"headless"}), .output = above / "out"});
  REQUIRE(soon([&] { return look_at_process(headless.id().pid)->state == 'Z'; }));
  CHECK_FALSE(headless.wait(std::chrono::milliseconds(0)));
  {
    std::optional<agent_client> connected;
    REQUIRE(soon([&] {  // the agent starts to listen later
      try {
        connected.emplace(agent_client::connect(run.path()));
        return true;
      } catch (const io_error&) {
        return false;
      }
    }));
    auto& its = *connected;
    its.ask(succeed_owner{.request = 1,
                          .command = player({"sleep"}),
                          .environment = {},
                          .output = {},
                          .process = headless.id(),
                          .silence = 600});
    told_by<succession_agreed>(its);
  }
  CHECK(soon([&] {
    agent.ask(list_processes{2});
    return !told_by<processes_listed>(agent).processes.empty();
  }));
  CHECK(headless.wait(std::chrono::milliseconds(0))
        == process_end{.exit_code = {}, .signal = SIGKILL});
  agent.ask(end_agent{4});
  CHECK(agent.wait(long_enough) == process_end{.exit_code = 0});
  nothing_is_left_of(run);
}

TEST_CASE("a silent supervisor's process is killed and succeeded", "[process]") {
  led_run x;
  x.leader->signal(SIGSTOP);
  const auto said = x.said_other_than("");
  CHECK(said.ends_with(" node runs supervisor runs"));
  CHECK(x.leader->wait(std::chrono::milliseconds(0))->signal == SIGKILL);
}

TEST_CASE("after three deaths of a successor the agent gives up", "[process]") {
  led_run x(true);
  x.leader->signal(SIGKILL);
  x.leader->wait();
  auto agent = agent_client::connect(x.run.path());
  const auto known = [&] {
    agent.ask(list_processes{1});
    for (auto& one : told_by<processes_listed>(agent).processes)
      if (one.name == successor_name)
        return one;
    return known_process{};
  };
  CHECK(soon([&] {
    const auto now = known();
    return now.which == 3 && now.ended;
  }));
  CHECK(known().ended->exit_code == 7);
  CHECK_FALSE(std::filesystem::exists(x.run.processes() / (agent_name() + ".succession")));
  CHECK_FALSE(is_gone(x.node));  // the agent waits for an owner, and this test is one
}

TEST_CASE("after a killed agent, the next agent succeeds the supervisor's process", "[process]") {
  const scratch_folder above;
  const held_run_folder run(above / "run", "test", {"test"});
  auto first = outlived_agent(run);
  kill_agent_of(first);
  auto second = outlived_agent(run);
  second.ask(list_processes{1});
  told_by<processes_listed>(second);
  child_process leader(
      {.command = player({"troupe:successor", "run", run.path().string(), above / "said"}),
       .output = above / "out"});
  REQUIRE(soon([&] { return std::filesystem::exists(above / "said"); }));
  leader.signal(SIGKILL);
  const auto before = read_text(above / "said");
  leader.wait();
  CHECK(soon([&] { return read_text(above / "said") != before; }));
  second.ask(end_agent{1});
  CHECK(second.wait(long_enough) == process_end{.exit_code = 0});
  CHECK(first.wait(long_enough));
  nothing_is_left_of(run);
}

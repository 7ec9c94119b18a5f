#include "runtime/process/host_agent.hpp"

#include "runtime/core/error.hpp"
#include "runtime/process/process_entry.hpp"
#include "runtime/process/segments.hpp"
#include "runtime/process/unix_socket.hpp"
#include "tests/support/players.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

constexpr int patient = 600'000;  // ms

/// A run's folder and an agent that this process started.
struct with_agent {
  scratch_folder above;
  held_run_folder run{above / "run", "test", {"test"}};
  agent_client agent;

  explicit with_agent(int patience = patient)
      : agent(agent_client::start(
          player({agent_word, "run", run.path().string(), std::to_string(patience)}), run.path())) {
  }
  ~with_agent() {
    if (agent.wait(std::chrono::milliseconds(0)))
      return;
    try {
      agent.ask(end_agent{1});
    } catch (const io_error&) {
    }
    if (!agent.wait(long_enough))
      agent.kill();
  }

  process_started start(const std::string& name,
                        std::vector<std::string> words,
                        incarnation which = 1) {
    agent.ask(start_process{.request = 1,
                            .name = name,
                            .which = which,
                            .command = player(std::move(words)),
                            .environment = {},
                            .output = run.log_of(name)});
    return told_by<process_started>(agent);
  }
  pid_t agent_pid() const {
    pid_t out = 0;
    REQUIRE(soon([&] {
      for (const auto& one : seen_processes(run, [](const std::string&) {}))
        if (one.entry.role == "agent")
          out = one.entry.process.pid;
      return out != 0;
    }));
    return out;
  }
  void nothing_is_left() const {
    CHECK_FALSE(std::filesystem::exists(run.sockets() / agent_name()));
    CHECK(seen_processes(run, [](const std::string&) {}).empty());
  }
};

/// A raw connection: the test controls every byte.
struct raw {
  descriptor to;
  explicit raw(const with_agent& x) : to(connect_in(x.run.sockets(), agent_name())) {}
  void send(const std::string& bytes) const {
    // The agent may close the connection before all bytes are read.
    CHECK(::send(to.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0);
  }
  /// All bytes until the agent closes the connection.
  std::string told() const {
    std::string out;
    char bytes[4096];
    for (ssize_t size; (size = ::recv(to.number(), bytes, sizeof bytes, 0)) > 0;)
      out.append(bytes, std::size_t(size));
    return out;
  }
};

void all_gone(const std::vector<pid_t>& pids) {
  for (const auto pid : pids)
    CHECK(soon([&] { return is_gone(pid); }));
}

/// A run with an agent that was started by a now killed process.
struct killed_owner {
  scratch_folder above;
  held_run_folder run{above / "run", "test", {"test"}};
  pid_t agent = 0;
  std::vector<pid_t> below;  ///< children of the agent and their descendants

  explicit killed_owner(int patience) {
    child_process owner(
        {.command = player(
             {"owner", run.path().string(), std::to_string(patience), (above / "pids").string()}),
         .output = above / "out"});
    below = descendants_in(above / "pids");
    REQUIRE(soon([&] { return read_text(above / "out").ends_with('\n'); }));
    std::istringstream in(read_text(above / "out"));
    in >> agent >> below.emplace_back();
    REQUIRE_FALSE(is_gone(agent));
    owner.signal(SIGKILL);
    owner.wait();
  }
};

}  // namespace

TEST_CASE("an agent starts a process, reports its death, and starts the next incarnation",
          "[process]") {
  with_agent x;
  const auto first = x.start("node", {"exit", "7"});
  CHECK(first.which == 1);
  const auto died = told_by<process_died>(x.agent);
  CHECK(died.process == first.process);
  CHECK(died.how == process_end{.exit_code = 7});
  const auto second = x.start("node", {"sleep"}, 2);
  CHECK(second.which == 2);
  x.agent.ask(signal_process{.request = 2, .name = "node", .which = 2, .signal = SIGKILL});
  CHECK(told_by<process_signalled>(x.agent).request == 2);
  CHECK(told_by<process_died>(x.agent).how.signal == SIGKILL);
  x.agent.ask(list_processes{3});
  CHECK(told_by<processes_listed>(x.agent).processes.size() == 1);
}

TEST_CASE("a failed start is refused with the reason", "[process]") {
  with_agent x;
  x.agent.ask(start_process{
      .request = 4, .name = "node", .command = {"/nowhere/x"}, .environment = {}, .output = {}});
  const auto refused = told_by<request_refused>(x.agent);
  CHECK(refused.request == 4);
  CHECK(refused.why.find("/nowhere/x") != refused.why.npos);
}

TEST_CASE("CHILD-1: an agent's processes inherit none of its descriptors", "[process]") {
  with_agent x;
  x.start("node", {"descriptors"});
  told_by<process_died>(x.agent);
  CHECK(read_text(x.run.log_of("node")) == "0\n1\n2\n");
}

TEST_CASE("a process ends with all its descendants, also those in other groups", "[process]") {
  with_agent x;
  const auto started = x.start("node", {"descendants", x.above / "pids"});
  const auto below = descendants_in(x.above / "pids");
  ::kill(started.process.pid, SIGKILL);
  told_by<process_died>(x.agent);
  all_gone(below);
}

TEST_CASE("an agent leaves no processes and files when it ends on request", "[process]") {
  with_agent x;
  const auto started = x.start("node", {"descendants", x.above / "pids"});
  auto all = descendants_in(x.above / "pids");
  all.push_back(started.process.pid);
  const auto name = segment_prefix(x.run.record().id) + "window";
  const descriptor segment(::shm_open(name.c_str(), O_RDWR | O_CREAT, 0600));
  REQUIRE(segment);
  x.agent.ask(end_agent{2});
  CHECK(told_by<agent_ended>(x.agent).why == "it was asked to end");
  CHECK(x.agent.wait(long_enough) == process_end{.exit_code = 0});
  all_gone(all);
  x.nothing_is_left();
  CHECK(::shm_open(name.c_str(), O_RDWR, 0) < 0);
}

TEST_CASE("an agent without its owner ends with all its processes", "[process]") {
  constexpr int impatient = 3000;  // ms
  std::vector<pid_t> all;
  scratch_folder above;
  const held_run_folder run(above / "run", "test", {"test"});
  {
    auto agent = agent_client::start(
        player({agent_word, "run", run.path().string(), std::to_string(impatient)}), run.path());
    agent.ask(start_process{.request = 1,
                            .name = "node",
                            .command = player({"descendants", above / "pids"}),
                            .environment = {},
                            .output = {}});
    all = descendants_in(above / "pids");
    all.push_back(told_by<process_started>(agent).process.pid);
    all.push_back(agent.agent()->pid);
  }
  all_gone(all);
  CHECK_FALSE(std::filesystem::exists(run.sockets() / agent_name()));
}

TEST_CASE("after a kill of its owner an agent ends with all its processes", "[process]") {
  const killed_owner x(3000);  // ms
  CHECK(soon([&] { return is_gone(x.agent); }));
  all_gone(x.below);
  CHECK_FALSE(std::filesystem::exists(x.run.sockets() / agent_name()));
}

TEST_CASE("after a kill of its owner an agent serves a successor", "[process]") {
  const killed_owner x(patient);
  const auto& run = x.run;
  auto successor = agent_client::connect(run.path());
  successor.ask(list_processes{2});
  const auto listed = told_by<processes_listed>(successor).processes;
  REQUIRE(listed.size() == 1);
  CHECK(is_running(listed[0].process));
  successor.ask(end_agent{3});
  told_by<agent_ended>(successor);
  all_gone(x.below);
  CHECK(soon([&] { return is_gone(x.agent); }));
}

TEST_CASE("SIGTERM, SIGINT and SIGHUP end an agent in order", "[process]") {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    with_agent x;
    const auto started = x.start("node", {"sleep"});
    ::kill(x.agent_pid(), number);
    CHECK(told_by<agent_ended>(x.agent).why == "it got " + signal_name(number));
    CHECK(x.agent.wait(long_enough) == process_end{.exit_code = 0});
    CHECK(is_gone(started.process.pid));
  }
}

TEST_CASE("AGENT-2: garbage is refused and logged once, and the agent continues", "[process]") {
  with_agent x;
  x.start("node", {"sleep"});
  const std::string garbage[] = {
      "GET / HTTP/1.1\r\n\r\n",
      "\xff\xff\xff\xff and so on",
      std::string(4, '\0'),
      frame_of("no JSON"),
      frame_of(R"({"version": 99, "type": "list", "request": 1})"),
      frame_of(std::string(100'000, '[')),
      frame_of(R"({"version": 2, "type": "end"})"),
      std::string(1 << 20, '\x7f'),
  };
  for (int round = 0; round < 3; ++round)
    for (const auto& bytes : garbage) {
      const raw sender(x);
      sender.send(bytes);
      CHECK(sender.told().find("refused") != std::string::npos);
    }
  for (int i = 0; i < 3; ++i) {
    const raw half(x);
    half.send(frame_of(text_of(agent_request(list_processes{1}))).substr(0, 20));
  }
  // An incomplete message and many silent connections do not block the others.
  std::vector<raw> silent;
  for (int i = 0; i < 40; ++i)
    silent.emplace_back(x);
  silent.back().send("\x01");
  x.agent.ask(list_processes{2});
  const auto listed = told_by<processes_listed>(x.agent).processes;
  REQUIRE(listed.size() == 1);
  CHECK_FALSE(listed[0].ended);
  const auto log = read_text(x.run.log_of(agent_name()));
  const std::string version = "it has version 99";
  const auto said = log.find(version);
  REQUIRE(said != log.npos);
  CHECK(log.find(version, said + 1) == log.npos);
}

TEST_CASE("a peer that does not read is disconnected, and the agent continues", "[process]") {
  with_agent x;
  for (int i = 0; i < 200; ++i) {
    const auto name = std::string(50, 'n') + std::to_string(i);
    x.start(name, {"exit", "0"});
  }
  const raw deaf(x);
  const auto ask = frame_of(text_of(agent_request(list_processes{1})));
  // Each answer lists 200 processes, and the peer reads none.
  for (int i = 0; i < 2000; ++i)
    if (::send(deaf.to.number(), ask.data(), ask.size(), MSG_NOSIGNAL) < 0)
      break;
  CHECK(soon([&] {
    const std::string more = ask;
    return ::send(deaf.to.number(), more.data(), more.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0
           && errno == EPIPE;
  }));
  x.agent.ask(list_processes{2});
  CHECK(told_by<processes_listed>(x.agent).processes.size() == 200);
}

TEST_CASE("a socket works in a folder of any depth", "[process]") {
  const scratch_folder above;
  auto deep = above.path();
  for (int i = 0; i < 10; ++i)
    deep /= std::string(50, 'x');
  std::filesystem::create_directories(deep);
  const auto listening = listen_in(deep, "socket");
  const auto here = connect_in(deep, "socket");
  std::string refused;
  CHECK(accept_own_user(listening, refused));
  CHECK(refused.empty());
  CHECK_FALSE(accept_own_user(listening, refused));
  CHECK_THROWS_AS(connect_in(deep, "other"), io_error);
  const auto again = listen_in(deep, "socket");  // replaces a socket file that was left
}

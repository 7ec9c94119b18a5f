#include "runtime/process/child_process.hpp"

#include "runtime/core/error.hpp"
#include "tests/support/players.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sys/prctl.h>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// Standard output of the program.
std::string printed(child_program what) {
  const scratch_folder folder;
  what.output = folder / "out";
  child_process child(what);
  CHECK(child.wait() == process_end{.exit_code = 0});
  return read_text(folder / "out");
}

}  // namespace

TEST_CASE("the end of a child is a value: exit code or signal, with text", "[process]") {
  CHECK(child_process({.command = player({"exit", "0"})}).wait().exit_code == 0);
  const auto seven = child_process({.command = player({"exit", "7"})}).wait();
  CHECK(seven == process_end{.exit_code = 7});
  CHECK(text_of(seven) == "exit code 7");

  child_process sleeper({.command = player({"sleep"})});
  CHECK_FALSE(sleeper.wait(std::chrono::milliseconds(0)));
  CHECK(sleeper.signal(SIGKILL));
  const auto killed = sleeper.wait();
  CHECK(killed.signal == SIGKILL);
  CHECK_FALSE(killed.exit_code);
  CHECK_THAT(text_of(killed), ContainsSubstring("killed by SIGKILL"));
  CHECK(sleeper.wait() == killed);
  CHECK_FALSE(sleeper.signal(SIGKILL));

  CHECK(child_process({.command = player({"abort"})}).wait().signal == SIGABRT);
  CHECK(text_of(process_end{.exit_code = {}, .signal = SIGSEGV, .core = true})
        == "killed by SIGSEGV, core dumped");
  CHECK(text_of(process_end{.exit_code = {}, .signal = SIGKILL, .out_of_memory = true})
        == "killed by SIGKILL, probably out of memory");
  CHECK(signal_name(63) == "signal 63");
}

TEST_CASE("a failed start names the program and the reason", "[process]") {
  CHECK_THROWS_MATCHES(
      child_process({.command = {"/nowhere/program"}}),
      io_error,
      MessageMatches(ContainsSubstring("/nowhere/program") && ContainsSubstring("No such file")));
  CHECK_THROWS_MATCHES(child_process({.command = player({"exit", "0"}), .output = "/nowhere/out"}),
                       io_error,
                       MessageMatches(ContainsSubstring("/nowhere/out")));
  CHECK_THROWS_AS(child_process({.command = {}}), io_error);
  CHECK_THROWS_MATCHES(child_process({.command = player({"exit", "0"}), .inherited = {9999}}),
                       io_error,
                       MessageMatches(ContainsSubstring("9999")));
}

TEST_CASE("CHILD-1: a child inherits only the listed descriptors", "[process]") {
  // One is not closed at exec; two have numbers that overlap their places in the child.
  const descriptor leaked(::open("/dev/null", O_RDONLY));
  const descriptor a(::fcntl(leaked.number(), F_DUPFD, 3)), b(::fcntl(leaked.number(), F_DUPFD, 3));
  CHECK(printed({.command = player({"descriptors"})}) == "0\n1\n2\n");
  CHECK(printed({.command = player({"descriptors"}), .inherited = {b.number(), a.number()}})
        == "0\n1\n2\n3\n4\n");
  CHECK(printed({.command = player({"descriptors"}), .inherited = {4, 3, 4}})
        == "0\n1\n2\n3\n4\n5\n");
}

TEST_CASE("a child has its own process group, empty input and default signal handling",
          "[process]") {
  sigset_t blocked, before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto ignored = ::signal(SIGPIPE, SIG_IGN);
  CHECK(printed({.command = player({"signals"})}) == "0 0\n0 0\n0 0\n");
  ::signal(SIGPIPE, ignored);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::istringstream in(printed({.command = player({"group"})}));
  int pid = 0, group = 1;
  in >> pid >> group;
  CHECK(pid == group);
  CHECK(printed({.command = {"/bin/cat"}}).empty());
}

TEST_CASE("a child inherits the environment with the requested changes", "[process]") {
  ::setenv("TROUPE_TEST_KEPT", "kept", 1);
  ::setenv("TROUPE_TEST_CHANGED", "before", 1);
  const std::vector<std::string> changes{"TROUPE_TEST_CHANGED=after = all"};
  CHECK(printed({.command = player({"print", "TROUPE_TEST_KEPT"}), .environment = changes})
        == "kept\n");
  CHECK(printed({.command = player({"print", "TROUPE_TEST_CHANGED"}), .environment = changes})
        == "after = all\n");
}

TEST_CASE("destroying a child_process kills the child's process group", "[process]") {
  const scratch_folder folder;
  pid_t child = 0;
  std::vector<pid_t> below;
  {
    const child_process parent({.command = player({"descendants", folder / "pids"})});
    child = parent.id().pid;
    below = descendants_in(folder / "pids");
  }
  CHECK(is_gone(child));
  int in_group = 0;
  for (const auto pid : below)  // one descendant has left the group; a host agent finds it, too
    in_group += soon([&] { return is_gone(pid); }, std::chrono::seconds(2));
  CHECK(in_group == 2);
  for (const auto pid : below)
    ::kill(pid, SIGKILL);
}

TEST_CASE("a child that is left continues to run", "[process]") {
  process_id id;
  {
    child_process child({.command = player({"sleep"})});
    id = child.id();
    child.leave();
  }
  CHECK(is_running(id));
  ::kill(id.pid, SIGKILL);
  ::waitpid(id.pid, nullptr, 0);
}

TEST_CASE("a reused pid is recognised by the start time", "[process]") {
  child_process child({.command = player({"sleep"})});
  CHECK(is_running(child.id()));
  auto other = child.id();
  other.start_time += 1;
  CHECK_FALSE(is_running(other));
  CHECK_FALSE(running_process::find(other));
  CHECK_FALSE(running_process::find({.pid = 0, .start_time = 0}));
  CHECK_FALSE(running_process::find({.pid = 0x3fffffff, .start_time = 1}));

  const auto found = running_process::find(child.id());
  REQUIRE(found);
  CHECK_FALSE(found->wait(std::chrono::milliseconds(0)));
  CHECK(found->signal(SIGKILL));
  CHECK(found->wait(long_enough));
  CHECK_FALSE(is_running(child.id()));  // a zombie until it is waited for
  CHECK_FALSE(running_process::find(child.id()));
  child.wait();
  CHECK_FALSE(found->signal(SIGKILL));
}

TEST_CASE("facts of a process are read with any characters in its name", "[process]") {
  const auto facts = read_process_facts(
      "42 (a) Z 1 (b c) S 7 9 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 1 2 3");
  REQUIRE(facts);
  CHECK(facts->id == process_id{.pid = 42, .start_time = 123456});
  CHECK(facts->state == 'S');
  CHECK(facts->parent == 7);
  CHECK(facts->group == 9);
  CHECK_FALSE(read_process_facts(""));
  CHECK_FALSE(read_process_facts("42 (sleep"));
  CHECK_FALSE(read_process_facts("42 (sleep) S 7 9"));
  CHECK(this_process().pid == ::getpid());
}

TEST_CASE("a process with end_with_parent ends with its parent, whatever ends that", "[process]") {
  const scratch_folder folder;
  child_process parent({.command = player({"parent"}), .output = folder / "out"});
  REQUIRE(soon([&] { return read_text(folder / "out").ends_with('\n'); }));
  const auto child = std::stoi(read_text(folder / "out"));
  REQUIRE_FALSE(is_gone(child));
  // child_process would kill the whole group.
  ::kill(parent.id().pid, SIGKILL);
  CHECK(soon([&] { return is_gone(child); }));
  CHECK_FALSE(end_with_parent(::getpid()));  // this process is not its own parent
  ::prctl(PR_SET_PDEATHSIG, 0);
}

TEST_CASE("out-of-memory kills are counted for cgroups v1 and v2", "[process]") {
  const scratch_folder root;
  const auto write = [&](const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  };
  CHECK(out_of_memory_kills(root.path()) == 0);
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/memory.events", "oom 1\noom_kill 5\n");
  CHECK(out_of_memory_kills(root.path()) == 5);
  write("sys/fs/cgroup/job/memory.events", "low 0\nhigh 3\noom 4\noom_kill 2\n");
  CHECK(out_of_memory_kills(root.path()) == 2);
  write("proc/self/cgroup", "3:cpu,cpuacct:/\n2:memory:/old\n");
  write("sys/fs/cgroup/memory/old/memory.oom_control", "oom_kill_disable 0\noom_kill 7\n");
  CHECK(out_of_memory_kills(root.path()) == 7);
}

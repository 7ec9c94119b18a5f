// The process of process tests. Its first argument selects what it does.

#include "runtime/process/agent_client.hpp"
#include "runtime/process/host_agent.hpp"
#include "runtime/process/process_id.hpp"
#include "runtime/process/run_folder.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <pthread.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <variant>
#include <vector>

namespace {

using namespace troupe::runtime;

[[noreturn]] void sleep_for_ever() {
  for (;;)
    ::pause();
}

/// Creates the file, to show that the process has started.
void put_there(const std::string& file) {
  std::fclose(std::fopen(file.c_str(), "w"));
}

/// Prints each open descriptor on a line, without that of /proc/self/fd.
void print_descriptors() {
  DIR* const all = ::opendir("/proc/self/fd");
  while (const auto* entry = ::readdir(all))
    if (entry->d_name[0] != '.' && std::atoi(entry->d_name) != ::dirfd(all))
      std::printf("%s\n", entry->d_name);
  ::closedir(all);
}

void print_signals() {
  sigset_t blocked;
  ::sigprocmask(SIG_BLOCK, nullptr, &blocked);
  for (const int number : {SIGTERM, SIGHUP, SIGPIPE}) {
    struct sigaction now = {};
    ::sigaction(number, nullptr, &now);
    std::printf("%d %d\n", ::sigismember(&blocked, number), int(now.sa_handler == SIG_IGN));
  }
}

/// Starts a child, a grandchild with a dead parent, and a grandchild in a session of its own.
/// Writes their pids to the file when all of them run.
[[noreturn]] void have_descendants(const std::string& file) {
  int ends[2];
  if (::pipe(ends) != 0)
    std::exit(1);
  const auto tell = [&] {
    const auto me = ::getpid();
    if (::write(ends[1], &me, sizeof me) != ssize_t(sizeof me))
      std::exit(1);
  };
  if (::fork() == 0) {
    if (::fork() == 0) {
      tell();
      sleep_for_ever();
    }
    if (::fork() == 0) {
      ::setsid();
      if (::fork() == 0) {
        tell();
        sleep_for_ever();
      }
    }
    std::_Exit(0);
  }
  if (::fork() == 0) {
    tell();
    sleep_for_ever();
  }
  pid_t all[3] = {};
  for (auto& one : all)
    if (::read(ends[0], &one, sizeof one) != ssize_t(sizeof one))
      std::exit(1);
  replace_file(
      file, std::to_string(all[0]) + " " + std::to_string(all[1]) + " " + std::to_string(all[2]));
  sleep_for_ever();
}

/// Starts a child that ends with its parent, and prints the child's pid.
[[noreturn]] void be_parent() {
  const auto me = ::getpid();
  const auto child = ::fork();
  if (child == 0) {
    if (!end_with_parent(me))
      std::_Exit(1);
    std::printf("%d\n", int(::getpid()));
    std::fflush(stdout);
    sleep_for_ever();
  }
  sleep_for_ever();
}

/// Marked by their command lines as parts of a run. The first holds 256 MiB, so the kernel needs a
/// while to end it.
constexpr const char *part_word = "troupe:part", *successor_word = "troupe:successor";

[[noreturn]] void be_part() {
  constexpr std::size_t bytes = std::size_t(256) << 20;
  if (::mmap(
          nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)
      == MAP_FAILED)
    std::exit(1);
  sleep_for_ever();
}

/// Starts an agent, which starts a process with descendants. Prints the pids of agent and process.
[[noreturn]] void be_owner(const std::string& run,
                           const std::string& patience,
                           const std::string& file) {
  auto agent = agent_client::start({"/proc/self/exe", agent_word, "run", run, patience}, run);
  agent.ask(start_process{.request = 1,
                          .name = "node",
                          .command = {"/proc/self/exe", "descendants", file},
                          .environment = {},
                          .output = {}});
  while (const auto told = agent.next(std::chrono::minutes(1)))
    if (const auto* const started = std::get_if<process_started>(&*told)) {
      std::printf("%d %d\n", int(agent.agent()->pid), int(started->process.pid));
      std::fflush(stdout);
    }
  std::exit(1);
}

/// Leads a run: starts an agent, has it start a sleeping process, and
/// registers `successor`. Prints the pids of agent and process.
[[noreturn]] void be_leader(const std::string& run,
                            const std::string& patience,
                            std::vector<std::string> successor) {
  auto agent = agent_client::start({"/proc/self/exe", agent_word, "run", run, patience}, run);
  agent.ask(start_process{.request = 1,
                          .name = "node",
                          .command = {"/proc/self/exe", part_word, "run", run},
                          .environment = {},
                          .output = {}});
  successor.insert(successor.begin(), std::filesystem::read_symlink("/proc/self/exe").string());
  agent.succeed(2, {.command = std::move(successor), .silence = std::chrono::seconds(2)});
  process_id node;
  while (const auto told = agent.next(std::chrono::minutes(1)))
    if (const auto* const started = std::get_if<process_started>(&*told)) {
      node = started->process;
    } else if (std::holds_alternative<succession_agreed>(*told)) {
      std::printf("%d %d\n", int(agent.agent()->pid), int(node.pid));
      std::fflush(stdout);
    }
  std::exit(1);
}

/// Registers a successor of its own, then writes its pid and the processes that the agent knows to
/// the file, in one line.
std::vector<known_process> lead(agent_client& agent,
                                const std::string& run,
                                const std::string& file) {
  agent.succeed(1, {.command = {"/proc/self/exe", successor_word, "run", run, file}});
  agent.ask(list_processes{2});
  while (const auto told = agent.next(std::chrono::minutes(1)))
    if (const auto* const all = std::get_if<processes_listed>(&*told)) {
      std::string line = std::to_string(::getpid());
      for (const auto& one : all->processes)
        line += " " + one.name + (one.ended ? " ended" : " runs");
      replace_file(file, line);
      return all->processes;
    }
  std::exit(1);
}

/// Lets a new agent adopt all running processes except this one.
void adopt_all(agent_client& agent, const std::vector<known_process>& known) {
  for (const auto& one : known)
    if (!one.ended && one.process != this_process())
      agent.ask(adopt_process{
          .request = 9, .name = one.name, .which = one.which, .process = one.process});
}

/// Takes over the run's agent. If the agent dies, starts another one, which adopts all running
/// processes. SIGTERM ends the agent and then this process.
[[noreturn]] void be_successor(const std::string& run, const std::string& file) {
  sigset_t end;
  ::sigemptyset(&end);
  ::sigaddset(&end, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &end, nullptr);
  std::optional<agent_client> agent(agent_client::connect(run));
  auto known = lead(*agent, run, file);
  const timespec now{};
  for (bool to_end = false;;) {
    try {
      if (!to_end && (to_end = ::sigtimedwait(&end, nullptr, &now) == SIGTERM))
        agent->ask(end_agent{3});
      agent->next(std::chrono::milliseconds(10));
    } catch (const std::exception&) {  // it is gone
      if (to_end)
        break;
      agent.emplace(agent_client::start({"/proc/self/exe", agent_word, "run", run, "600000"}, run));
      adopt_all(*agent, known);
      known = lead(*agent, run, file);
    }
  }
  replace_file(file, "over");
  std::exit(0);
}

/// Ends its first thread and continues in another one; the kernel then reports it as a zombie.
[[noreturn]] void be_headless() {
  std::thread(sleep_for_ever).detach();
  ::pthread_exit(nullptr);
}

int be_agent(const std::vector<std::string>& words) {
  host_agent_settings settings;
  settings.run = words.at(2);
  settings.behaviour.owner_patience = std::chrono::milliseconds(std::atoi(words.at(3).c_str()));
  if (words.size() > 4)
    settings.connection = descriptor(std::atoi(words.back().c_str()));
  run_host_agent(std::move(settings));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto what = words.at(0);
  if (what == agent_word)
    return be_agent(words);
  if (what == "exit")
    return std::atoi(words.at(1).c_str());
  if (what == "abort")
    std::abort();
  if (what == "descriptors")
    print_descriptors();
  if (what == "signals")
    print_signals();
  if (what == "print")
    std::printf("%s\n", std::getenv(words.at(1).c_str()));
  if (what == "group")
    std::printf("%d %d\n", int(::getpid()), int(::getpgrp()));
  if (what == "parent")
    be_parent();
  if (what == "descendants")
    have_descendants(words.at(1));
  if (what == "owner")
    be_owner(words.at(1), words.at(2), words.at(3));
  if (what == "leader")
    be_leader(words.at(1), words.at(2), {words.begin() + 3, words.end()});
  if (what == successor_word)
    be_successor(words.at(2), words.at(3));
  if (what == "run") {  // holds a folder until it is killed
    const held_run_folder folder(words.at(1), "player", {"player"});
    std::printf("held\n");
    std::fflush(stdout);
    sleep_for_ever();
  }
  if (what == "headless")
    be_headless();
  if (what == part_word)
    be_part();
  if (what == "sleep") {
    if (words.size() > 1)
      put_there(words[1]);
    sleep_for_ever();
  }
  return 0;
}

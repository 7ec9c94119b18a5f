#include "runtime/process/guard.hpp"

#include "runtime/core/error.hpp"
#include "runtime/process/host_agent.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

constexpr const char* part_prefix = "troupe:";
/// Process name of a guard (proc(5), comm), at most 15 characters. Its command line is its agent's.
constexpr const char* guards_name = "troupe-guard";

/// Leaves out ignored signals: a blocked signal would be delivered even when it is ignored.
sigset_t agent_signals() {
  sigset_t out;
  ::sigemptyset(&out);
  ::sigaddset(&out, SIGCHLD);
  for (const int number : {SIGTERM, SIGINT, SIGHUP})
    if (struct sigaction now = {};
        ::sigaction(number, nullptr, &now) != 0 || now.sa_handler != SIG_IGN)
      ::sigaddset(&out, number);
  return out;
}

void take_orphans() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
    throw io_error("cannot become a subreaper: {}", system_message(errno));
}

int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

sigset_t guard_signals() {
  auto out = agent_signals();
  ::sigaddset(&out, signal_to_end_everybody());
  return out;
}

/// Waits for all ended children; stores the status of `child` when it is among them.
void reap(pid_t child, std::optional<int>& status) {
  int how = 0;
  for (pid_t pid = ::waitpid(-1, &how, WNOHANG); pid > 0; pid = ::waitpid(-1, &how, WNOHANG))
    if (pid == child)
      status = how;
}

struct child_end {
  int code = 0;
  bool everybody = false;  ///< the guard was told to kill all processes
};

child_end wait_for(pid_t child) {
  const auto wanted = guard_signals();
  child_end out;
  for (std::optional<int> status;;) {
    reap(child, status);
    if (status) {
      out.code = exit_code_of(*status);
      return out;
    }
    siginfo_t what = {};
    const int number = ::sigwaitinfo(&wanted, &what);
    out.everybody |= number == signal_to_end_everybody();
    if (number > 0 && number != SIGCHLD)
      ::kill(child, out.everybody ? SIGKILL : SIGTERM);
  }
}

bool is_one_of(const std::vector<process_id>& all, pid_t pid) {
  return std::any_of(all.begin(), all.end(), [pid](const auto& one) { return one.pid == pid; });
}

/// Waits until the survivors have ended or must end; returns true when all processes must end.
bool let_live(const survival& x, pid_t owner) {
  using std::chrono::milliseconds;
  constexpr milliseconds shortest(20), longest(500);
  const auto period = std::clamp<milliseconds>(x.patience / 20, shortest, longest);
  const timespec slice{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(period).count()};
  const auto wanted = guard_signals();
  std::optional<int> nobody;
  // Counts slices in which this process ran, so that a pause of the machine does not count.
  for (milliseconds alone(0); alone < x.patience;) {
    reap(0, nobody);
    const auto who = x.who();
    if (std::none_of(who.begin(), who.end(), is_running))
      return false;
    kill_children([&](int pid) { return is_one_of(who, pid) || x.others(pid); });
    siginfo_t what = {};
    const int number = ::sigtimedwait(&wanted, &what, &slice);
    if (number > 0 && number != SIGCHLD)
      return true;
    if (number < 0 && errno == EAGAIN)
      alone = ::getppid() == owner || x.wanted() ? milliseconds(0) : alone + period;
  }
  return false;
}

/// The children of a killed child are reparented to us before its end is reported, so no child left
/// means no descendant left.
void end_children(const std::function<bool(pid_t)>& spare) {
  for (;;) {
    const auto all = children_of(::getpid());
    const auto one = std::find_if(all.begin(), all.end(), [&](const process_facts& x) {
      return x.state == 'Z' || !spare(x.id.pid);
    });
    if (one == all.end())
      return;
    kill_children(spare);
    ::waitpid(one->id.pid, nullptr, 0);
  }
}

/// Adopted processes are not our children, so waitpid does not report their end. `clean` keeps the
/// files that a running process needs. So this waits for their end, for at most 10 s.
void end_survivors(const survival& x) {
  constexpr std::chrono::seconds most(10);
  std::vector<running_process> killed;
  for (const auto& one : x.who())
    if (auto it = running_process::find(one)) {
      it->signal(SIGKILL);
      kill_group(one);
      killed.push_back(std::move(*it));
    }
  const auto until = std::chrono::steady_clock::now() + most;
  for (const auto& one : killed)
    one.wait(std::max(std::chrono::milliseconds(0),
                      std::chrono::duration_cast<std::chrono::milliseconds>(
                          until - std::chrono::steady_clock::now())));
}

}  // namespace

int signal_to_end_everybody() {
  return SIGRTMIN;
}

void block_agent_signals() {
  const auto wanted = agent_signals();
  ::sigprocmask(SIG_BLOCK, &wanted, nullptr);
}

bool is_part_of(const std::filesystem::path& run, pid_t pid) {
  const auto words = command_of(pid);
  if (words.size() < 2 || !words[1].starts_with(part_prefix))
    return false;
  std::error_code failure;
  const auto wanted = std::filesystem::weakly_canonical(run, failure);
  return std::any_of(words.begin() + 2, words.end(), [&](const std::string& word) {
    return std::filesystem::weakly_canonical(word, failure) == wanted;
  });
}

bool is_guard(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  return std::getline(file, name) && name == guards_name;
}

void kill_part(const process_id& it, bool guards_obey) {
  const auto process = running_process::find(it);
  if (!process)
    return;
  if (guards_obey && is_guard(it.pid)) {
    process->signal(signal_to_end_everybody());
    return;
  }
  const auto words = command_of(it.pid);
  const bool has_others = words.size() > 1 && words[1] == agent_word;
  const auto below = has_others ? children_of(it.pid) : std::vector<process_facts>();
  process->signal(SIGKILL);
  for (const auto& one : below)
    if (const auto child = running_process::find(one.id))
      child->signal(SIGKILL);
}

void kill_children(const std::function<bool(int pid)>& spare) {
  for (const auto& one : children_of(::getpid()))
    if (one.state != 'Z' && !spare(one.id.pid))
      ::kill(one.id.pid, SIGKILL);  // a child's pid is its own until we wait for it
}

int guarded(const std::function<int()>& work,
            const std::function<void()>& before,
            const std::function<void()>& clean,
            const std::optional<survival>& survivors) {
  take_orphans();
  const auto wanted = guard_signals();
  ::sigprocmask(SIG_BLOCK, &wanted, nullptr);
  std::fflush(nullptr);  // otherwise both processes write the buffers
  // The guard takes its name before the fork. Otherwise a process that kills agents would take it
  // for an agent, kill it and leave the agent's processes running.
  std::array<char, 16> own_name{};  // the kernel's maximum
  ::prctl(PR_GET_NAME, own_name.data());
  ::prctl(PR_SET_NAME, guards_name);
  const pid_t guard = ::getpid(), owner = ::getppid(), child = ::fork();
  if (child < 0) {
    const auto why = system_message(errno);
    ::prctl(PR_SET_NAME, own_name.data());
    throw io_error("cannot start a process: {}", why);
  }
  if (child == 0) {
    ::prctl(PR_SET_NAME, own_name.data());
    if ((!survivors && ::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) || ::getppid() != guard)
      throw io_error("the guard of this process has ended before it began");
    // A process that waits for the guard kills the guard's process group. The child leaves that
    // group: if it died there, its own children would stay behind.
    ::setpgid(0, 0);
    take_orphans();
    ::signal(SIGTERM, SIG_DFL);  // the signal of the guard's death
    block_agent_signals();
    return work();
  }
  before();
  const auto end = wait_for(child);
  bool everybody = !survivors || end.everybody;
  if (!everybody)
    everybody = let_live(*survivors, owner);
  if (survivors)
    end_survivors(*survivors);
  end_children([&](pid_t pid) { return !everybody && survivors->others(pid); });
  clean();
  return end.code;
}

}  // namespace troupe::runtime

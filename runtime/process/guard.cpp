#include "runtime/process/guard.hpp"

#include "runtime/core/error.hpp"
#include "runtime/process/process_id.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace troupe::runtime {
namespace {

/// But those that are ignored: one that is blocked would come all the same.
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
    throw io_error("cannot become the reaper of orphans: {}", system_message(errno));
}

int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Whatever has ended is waited for. What the child's status is, once it has ended.
void reap(pid_t child, std::optional<int>& status) {
  int how = 0;
  for (pid_t pid = ::waitpid(-1, &how, WNOHANG); pid > 0; pid = ::waitpid(-1, &how, WNOHANG))
    if (pid == child)
      status = how;
}

int wait_for(pid_t child) {
  const auto wanted = agent_signals();
  for (std::optional<int> status;;) {
    reap(child, status);
    if (status)
      return exit_code_of(*status);
    siginfo_t what = {};
    const int number = ::sigwaitinfo(&wanted, &what);
    if (number > 0 && number != SIGCHLD)
      ::kill(child, SIGTERM);
  }
}

/// A child that is killed leaves its children to us before its own end is told: when none is
/// left, nothing is.
void end_everybody() {
  do {
    kill_children([](int) { return false; });
  } while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR);
}

}  // namespace

void block_agent_signals() {
  const auto wanted = agent_signals();
  ::sigprocmask(SIG_BLOCK, &wanted, nullptr);
}

void kill_children(const std::function<bool(int pid)>& spare) {
  for (const auto& one : children_of(::getpid()))
    if (one.state != 'Z' && !spare(one.id.pid))
      ::kill(one.id.pid, SIGKILL);  // a child's pid is its own until we wait for it
}

int guarded(const std::function<int()>& work,
            const std::function<void()>& before,
            const std::function<void()>& clean) {
  take_orphans();
  block_agent_signals();
  std::fflush(nullptr);  // else both would write what is buffered
  const pid_t guard = ::getpid(), child = ::fork();
  if (child < 0)
    throw io_error("cannot start a process: {}", system_message(errno));
  if (child == 0) {
    if (::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || ::getppid() != guard)
      throw io_error("the guard of this process has ended before it began");
    // Who waits for the guard kills what is left of the guard's group: not us, who would then leave
    // our children to nobody.
    ::setpgid(0, 0);
    take_orphans();
    ::signal(SIGTERM, SIG_DFL);  // by which it hears of the guard's death
    block_agent_signals();
    return work();
  }
  before();
  const int code = wait_for(child);
  end_everybody();
  clean();
  return code;
}

}  // namespace troupe::runtime

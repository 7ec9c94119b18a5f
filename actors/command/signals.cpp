#include "actors/command/signals.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/thread.hpp"

#include <cerrno>
#include <cstdio>
#include <mutex>
#include <poll.h>
#include <signal.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <utility>

namespace troupe::command {
namespace {

constexpr std::pair<int, const char*> watched[] = {{SIGINT, "SIGINT"},
                                                   {SIGTERM, "SIGTERM"},
                                                   {SIGHUP, "SIGHUP"},
                                                   {SIGUSR1, "SIGUSR1"},
                                                   {SIGUSR2, "SIGUSR2"},
                                                   {SIGXCPU, "SIGXCPU"}};

const char* name_of(int number) {
  for (const auto& [its, name] : watched)
    if (its == number)
      return name;
  return "a signal";
}

int number_of(const std::string& name) {
  for (const auto& [number, its] : watched)
    if (name == its)
      return number;
  return SIGTERM;
}

bool is_ignored(int number) {
  struct sigaction now = {};
  return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

int exit_code_of_signal(const std::string& name) {
  return 128 + number_of(name);
}

signal_watch::signal_watch(take first, take second)
    : first_(std::move(first)), second_(std::move(second)) {
  sigset_t wanted;
  sigemptyset(&wanted);
  // SIGHUP: a closed terminal must not lose a step. Signals that the parent has ignored keep having
  // no effect: nohup and shells ignore some for background jobs. Schedulers of clusters send
  // SIGUSR1, SIGUSR2 or SIGXCPU before they end a job.
  for (const auto& [number, name] : watched)
    if (!is_ignored(number))
      sigaddset(&wanted, number);
  ::pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
  ::signal(SIGPIPE, SIG_IGN);  // a lost reader of our output must not end the run either
  signals_ = ::signalfd(-1, &wanted, SFD_CLOEXEC);
  end_ = ::eventfd(0, EFD_CLOEXEC);
  if (signals_ < 0 || end_ < 0)
    throw runtime::io_error("cannot watch for signals: {}", runtime::system_message(errno));
  thread_ = runtime::start_thread("signals", [this] { loop(); });
}

signal_watch::~signal_watch() {
  const std::uint64_t one = 1;
  if (::write(end_, &one, sizeof one) == sizeof one)
    thread_.join();
  else
    thread_.detach();
  ::close(signals_);
  ::close(end_);
}

void signal_watch::loop() {
  for (int seen = 0;; ++seen) {
    pollfd wait[2] = {{signals_, POLLIN, 0}, {end_, POLLIN, 0}};
    while (::poll(wait, 2, -1) < 0 && errno == EINTR) {
    }
    if (wait[1].revents != 0)
      return;
    signalfd_siginfo info = {};
    if (::read(signals_, &info, sizeof info) != sizeof info)
      return;
    const char* const name = name_of(int(info.ssi_signo));
    if (seen == 0) {
      first_(name);
    } else if (seen == 1 && second_) {
      second_(name);
    } else {
      runtime::clear_status_line();  // otherwise the prompt would follow it
      ::_exit(128 + int(info.ssi_signo));
    }
  }
}

int interruptible(const std::function<int(const runtime::cancel_token& stop)>& work) {
  const runtime::cancel_token stop;
  std::mutex mutex;
  std::string name;
  const signal_watch signals([&](const char* which) {
    {
      const std::lock_guard lock(mutex);
      name = which;
    }
    stop.cancel();
  });
  try {
    return work(stop);
  } catch (const runtime::cancelled&) {
    const std::lock_guard lock(mutex);
    std::fprintf(stderr, "troupe: %s: stopped; no output was written\n", name.c_str());
    return exit_code_of_signal(name);
  }
}

}  // namespace troupe::command

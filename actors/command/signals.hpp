// Signals that end a run (SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU) as events, except
// those that were ignored at the start. Also ignores SIGPIPE. SIGNAL-1: after a signal at any
// moment, all files are complete and the run can resume.

#pragma once

#include "runtime/core/cancel.hpp"

#include <functional>
#include <string>
#include <thread>

namespace troupe::command {

/// Construct it before any other thread, because threads inherit the blocked signals. The first
/// signal calls `first` with its name, on a thread of this object. The second calls `second`, if
/// given. Any further one ends the process at once with exit code 128 + signal.
class signal_watch {
 public:
  using take = std::function<void(const char* name)>;

  explicit signal_watch(take first, take second = {});
  ~signal_watch();
  signal_watch(const signal_watch&) = delete;
  signal_watch& operator=(const signal_watch&) = delete;

 private:
  void loop();

  take first_, second_;
  int signals_ = -1;  ///< signalfd
  int end_ = -1;      ///< eventfd
  std::jthread thread_;
};

/// 128 + the number of the signal with this name.
int exit_code_of_signal(const std::string& name);

/// Runs `work` and returns its result. The first signal cancels its token. If `work` then throws
/// `cancelled`, reports that on standard error and returns 128 + signal.
int interruptible(const std::function<int(const runtime::cancel_token& stop)>& work);

}  // namespace troupe::command

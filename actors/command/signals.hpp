// SIGINT, SIGTERM and SIGHUP as events, unless they were ignored already; SIGPIPE is ignored from
// then on. SIGNAL-1: at any moment a signal leaves no half of a file, and a state to resume from.

#pragma once

#include "runtime/core/cancel.hpp"

#include <functional>
#include <string>
#include <thread>

namespace troupe::command {

/// Construct it before any other thread: it blocks the signals, which threads inherit. The first
/// signal calls `first` with its name, on a thread of its own; the second calls `second`, where
/// there is one, and the next ends the process at once with code 128 + signal.
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

/// Of a name that was told.
int exit_code_of_signal(const std::string& name);

/// Carries out `work`; the first of these signals cancels its token. When that makes it throw
/// `cancelled`, says so on standard error and returns 128 + signal; else what it returned.
int interruptible(const std::function<int(const runtime::cancel_token& stop)>& work);

}  // namespace troupe::command

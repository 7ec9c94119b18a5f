// The keys of `troupe monitor` that send commands to the run. Each asks for `y` first.

#pragma once

#include "runtime/state/run_command.hpp"
#include "runtime/watch/follower.hpp"

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace troupe::command {

/// Sends commands to a run that is named by its folder, which has the control token. A background
/// thread waits for the run's answer, so the view does not block. One thread calls the functions.
class monitor_keys {
 public:
  explicit monitor_keys(runtime::followed_run run) : run_(std::move(run)) {}
  ~monitor_keys();  ///< may take a second
  monitor_keys(const monitor_keys&) = delete;
  monitor_keys& operator=(const monitor_keys&) = delete;

  /// "P pause  S save ...", for the page of keys.
  static const char* help();

  /// Takes a letter as a command or as the answer to a question. Returns false for other letters.
  bool take(char letter, bool run_is_paused);
  void cancel();  ///< withdraws a question, after a key that is not a letter
  /// A question, or the newest answer; empty: none.
  std::string line() const;
  std::uint64_t changes() const;  ///< grows when `line` may have changed

 private:
  void say(std::string line);
  void send(const runtime::run_command& what);

  const runtime::followed_run run_;
  std::optional<runtime::run_command> asked_;
  mutable std::mutex mutex_;
  std::string line_;
  std::uint64_t changes_ = 0;
  bool sends_ = false, stopped_ = false;
  std::jthread thread_;
};

}  // namespace troupe::command

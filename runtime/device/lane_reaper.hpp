// Joins closed lanes on a separate thread: ending a lane may take long, and its actor must not
// block.

#pragma once

#include "runtime/device/lane.hpp"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// All functions may be called from any thread.
class lane_reaper {
 public:
  /// Starts `what` in the background under a name. Throws io_error if the system refuses.
  using beginner = std::function<void(const char* name, std::function<void()> what)>;

  /// Starts a detached thread for each call of `take`.
  lane_reaper();
  explicit lane_reaper(beginner begin) : begin_(std::move(begin)) {}

  /// Closes the lanes and joins them in order. Then it calls `ended`, destroys the lanes and drops
  /// `held`. This runs in the background; without `threads`, or if no thread can be started, it
  /// runs in the caller.
  void take(std::vector<std::unique_ptr<lane>> lanes,
            std::function<void()> ended,
            std::shared_ptr<void> held,
            bool threads = true);

  /// Waits until all lanes taken so far have ended, at most `patience`; false on timeout.
  bool wait(std::chrono::milliseconds patience) const;
  void wait() const;  ///< without a timeout
  bool is_idle() const;

 private:
  struct count {
    std::mutex mutex;
    std::condition_variable changed;
    int pending = 0;
  };
  beginner begin_;
  std::shared_ptr<count> count_ = std::make_shared<count>();
};

}  // namespace troupe::runtime

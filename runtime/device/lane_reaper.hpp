// Who waits for lanes that have ended: a thread may take long to come to an end, and an actor must
// not wait for it.

#pragma once

#include "runtime/device/lane.hpp"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace troupe::runtime {

/// Any thread.
class lane_reaper {
 public:
  /// Closes these lanes and waits until each has ended, the first one first; calls `ended`,
  /// destroys the lanes, and drops `held`: all on a thread of its own, or, without `threads` and
  /// where the system gives none, on this one.
  void take(std::vector<std::unique_ptr<lane>> lanes,
            std::function<void()> ended,
            std::shared_ptr<void> held,
            bool threads = true);

  /// Until all that were taken have ended, at most so long; whether they have.
  bool wait(std::chrono::milliseconds patience) const;
  void wait() const;  ///< however long that takes

 private:
  struct count {
    std::mutex mutex;
    std::condition_variable changed;
    int pending = 0;
  };
  std::shared_ptr<count> count_ = std::make_shared<count>();
};

}  // namespace troupe::runtime

// Who waits for lanes that have ended: a thread may take long to come to an end, and an actor must
// not wait for it.

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

/// Any thread.
class lane_reaper {
 public:
  /// How something is begun beside who hands lanes over, under that name. Throws io_error where the
  /// system does not.
  using beginner = std::function<void(const char* name, std::function<void()> what)>;

  /// On a thread of its own, which nobody joins.
  lane_reaper();
  explicit lane_reaper(beginner begin) : begin_(std::move(begin)) {}

  /// Closes these lanes and waits until each has ended, the first one first; calls `ended`,
  /// destroys the lanes, and drops `held`: all beside who calls, or, without `threads` and where
  /// the system gives none, at once.
  void take(std::vector<std::unique_ptr<lane>> lanes,
            std::function<void()> ended,
            std::shared_ptr<void> held,
            bool threads = true);

  /// Until all that were taken have ended, at most so long; whether they have.
  bool wait(std::chrono::milliseconds patience) const;
  void wait() const;  ///< however long that takes
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

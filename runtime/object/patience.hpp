// Timeout for readers of objects after their run is told to end.

#pragma once

#include "runtime/core/cancel.hpp"

#include <chrono>
#include <mutex>
#include <optional>

namespace troupe::runtime {

/// Thread-safe.
class patience {
 public:
  /// Ends the patience `grace` after `ending` is cancelled; replaces earlier calls. Without a call
  /// it never ends.
  void end_by(const cancel_token& ending, std::chrono::milliseconds grace);

  bool is_over();
  std::chrono::milliseconds grace() const;

  /// Returns false, and early, if the patience ends.
  bool sleep_for(std::chrono::milliseconds time);

 private:
  mutable std::mutex mutex_;
  cancel_token ending_;
  std::chrono::milliseconds grace_{0};
  std::optional<std::chrono::steady_clock::time_point> since_;
};

}  // namespace troupe::runtime

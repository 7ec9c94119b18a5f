// How long readers of objects wait, once their run has been told to end.

#pragma once

#include "runtime/core/cancel.hpp"

#include <chrono>
#include <mutex>
#include <optional>

namespace troupe::runtime {

/// Any thread.
class patience {
 public:
  /// From now on it is over when `ending` has been cancelled for `grace`; what was said before is
  /// forgotten. Until this is called it is never over.
  void end_by(const cancel_token& ending, std::chrono::milliseconds grace);

  bool is_over();
  std::chrono::milliseconds grace() const;

  /// Returns false, and early, where it is over.
  bool sleep_for(std::chrono::milliseconds time);

 private:
  mutable std::mutex mutex_;
  cancel_token ending_;
  std::chrono::milliseconds grace_{0};
  std::optional<std::chrono::steady_clock::time_point> since_;
};

}  // namespace troupe::runtime

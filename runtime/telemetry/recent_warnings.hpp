// The newest warnings and errors of a process, on their way to viewers of its run.

#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

struct logged_warning {
  bool is_error = false;
  std::string text;
};

/// Keeps the newest 100. Any thread.
class recent_warnings {
 public:
  void add(logged_warning x) {
    const std::lock_guard lock(mutex_);
    if (all_.size() == most)
      all_.pop_front();
    all_.push_back(std::move(x));
  }
  /// Returns the warnings since the last call, oldest first.
  std::vector<logged_warning> take() {
    const std::lock_guard lock(mutex_);
    const auto all = std::exchange(all_, {});
    return {all.begin(), all.end()};
  }

 private:
  static constexpr std::size_t most = 100;

  std::mutex mutex_;
  std::deque<logged_warning> all_;
};

}  // namespace troupe::runtime

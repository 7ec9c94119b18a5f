// Parts of the tests of the HTTP server.

#pragma once

#include "runtime/http/server.hpp"

#include <condition_variable>
#include <deque>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace troupe::tests {

/// Keeps exchanges until the test answers them.
class desk {
 public:
  runtime::http::handler taker() {
    return [this](std::shared_ptr<runtime::http::exchange> x) {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(x));
      changed_.notify_all();
    };
  }
  std::shared_ptr<runtime::http::exchange> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !waiting_.empty(); });
    auto out = std::move(waiting_.front());
    waiting_.pop_front();
    return out;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<runtime::http::exchange>> waiting_;
};

inline constexpr std::string_view body_end = "\r\n\r\n";

inline std::string head(std::string_view first, std::string_view rest = {}) {
  return fmt::format("{} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", first, rest);
}

inline int status_of(std::string_view answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::stoi(std::string(answer.substr(9, 3))) : 0;
}

}  // namespace troupe::tests

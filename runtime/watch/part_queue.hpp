// A bounded byte queue between two threads: one reads a response of the hub, and the HTTP server's
// thread sends it to the browser.

#pragma once

#include "runtime/http/server.hpp"

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Any thread.
class part_queue {
 public:
  explicit part_queue(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// Sets the function that is called after each part and at the end. It is called under this
  /// queue's lock.
  void on_part(std::function<void()> wake);
  /// Appends a part when there is room. Returns false after `close`.
  bool put(std::string_view part);
  /// Marks the end: no part follows.
  void end();
  /// Returns the waiting bytes, possibly none, or nullopt at the end, as http::body_source.
  std::optional<std::string> take();
  /// Called when the receiver is gone. Ends a waiting `put`.
  void close();
  bool is_closed() const;
  std::size_t waiting() const;  ///< bytes

 private:
  const std::size_t most_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string bytes_;
  bool ended_ = false, closed_ = false;
  std::function<void()> wake_;
};

/// A response body that reads from the queue. Its destructor closes the queue.
std::unique_ptr<http::body_source> body_of(std::shared_ptr<part_queue> queue);

}  // namespace troupe::runtime

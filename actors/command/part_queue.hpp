// Parts of an answer on their way from the thread that reads them to a server's thread. Bounded.

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

namespace troupe::command {

/// Any thread.
class part_queue {
 public:
  explicit part_queue(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// Calls `wake` after each part and at the end.
  void on_part(std::function<void()> wake);
  /// Waits until there is room. False: `close` was called.
  bool put(std::string_view part);
  /// No more parts come.
  void end();
  /// All parts that wait: as http::body_source.
  std::optional<std::string> take();
  /// The receiver is gone.
  void close();
  bool is_closed() const;

 private:
  const std::size_t most_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string bytes_;
  bool ended_ = false, closed_ = false;
  std::function<void()> wake_;
};

/// A body that comes from a queue. Closes the queue at its end.
std::unique_ptr<runtime::http::body_source> body_of(std::shared_ptr<part_queue> queue);

}  // namespace troupe::command

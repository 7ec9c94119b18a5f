// HTTP requests on their way from the HTTP server's thread to the server actor.

#pragma once

#include "runtime/http/server.hpp"
#include "runtime/watch/part_queue.hpp"

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace troupe::actors {

/// Any thread.
class request_desk : public std::enable_shared_from_this<request_desk> {
 public:
  using asked = std::shared_ptr<runtime::http::exchange>;

  /// All routes of the API; their handlers put requests here.
  std::vector<runtime::http::server::route> routes();

  void put(asked x);  ///< answers with status 503 after `close`
  std::optional<asked> take();
  /// Sets the function that is called after each `put`, and calls it if requests wait.
  void on_request(std::function<void()> wake);
  void close();

  /// Begins to stream an answer from a new queue, whose `put` never waits.
  std::shared_ptr<runtime::part_queue> stream(runtime::http::exchange& to);
  std::size_t streams() const { return streams_; }  ///< whose last byte is not sent yet

 private:
  class counted_body;

  std::mutex mutex_;
  std::deque<asked> waiting_;
  std::function<void()> wake_;
  bool closed_ = false;
  std::atomic<std::size_t> streams_ = 0;
};

}  // namespace troupe::actors

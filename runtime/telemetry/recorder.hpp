// Writes run records on a separate thread, so that a slow or hung disk does not delay training.

#pragma once

#include "runtime/telemetry/step_report.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>

namespace troupe::runtime {

/// Records of a run.
using watched = std::variant<step_report, validation_report, run_event>;

/// A destination of records. Used by one thread. Every call may block, and throws io_error on
/// failure; then the same call is repeated. So a failed call must undo or remember what it has
/// written.
class record_sink {
 public:
  virtual ~record_sink() = default;
  virtual void write(const step_report& x) = 0;
  virtual void write(const validation_report& x) = 0;
  virtual void write(const run_event&) {}  ///< tables have no place for events
};

/// A sink on its own thread, behind a bounded queue. Used by one thread; only `finish` waits.
/// Failed calls are retried after 1, 2, 4, ... 64 times `pause`, and once more at the end: a full
/// disk loses records but does not stop the run.
class recorder {
 public:
  using opener = std::function<std::unique_ptr<record_sink>()>;

  /// `open` runs on the new thread; it may block and throw. When `capacity` records are waiting,
  /// the oldest is dropped.
  explicit recorder(opener open,
                    std::size_t capacity = 4096,
                    std::chrono::milliseconds pause = std::chrono::seconds(1));
  /// Ends the thread. If it hangs in a system call, it is detached.
  ~recorder();
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;

  void record(watched x);

  /// The first error since the last success; returned once.
  std::optional<std::string> trouble();

  /// No more records follow: also writes those that were held back.
  void close();
  /// Closes, and waits at most `patience` for the thread to end. True if everything was written.
  bool finish(std::chrono::milliseconds patience);

  std::uint64_t dropped() const;
  std::size_t waiting() const;  ///< queued records, without the one in progress

 private:
  struct desk;  // shared with the thread, which may outlive the recorder
  static void work(const std::shared_ptr<desk>& at, const opener& open);

  std::shared_ptr<desk> desk_;
  std::jthread thread_;
};

}  // namespace troupe::runtime

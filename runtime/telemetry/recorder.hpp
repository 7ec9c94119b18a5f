// Who writes down what is watched, beside everything else: a slow or hung disk delays nobody.

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

/// What is told of a run as it goes on.
using watched = std::variant<step_report, validation_report, run_event>;

/// A file in which it is written. One thread; every call may block, and throws io_error when the
/// system refuses. The same call is then made again: what a call has written by halves it takes
/// back, or knows.
class record_sink {
 public:
  virtual ~record_sink() = default;
  virtual void write(const step_report& x) = 0;
  virtual void write(const validation_report& x) = 0;
  virtual void write(const run_event&) {}  ///< a table has no place for it
  /// Writes what was held back.
  virtual void finish() {}
};

/// A sink on a thread of its own, with a bounded queue before it. One thread uses it; no call but
/// `finish` waits for anything. What the system refuses is tried again, after 1, 2, 4, ... 64 times
/// the pause, and once more at the end: a full disk costs records, not the run.
class recorder {
 public:
  using opener = std::function<std::unique_ptr<record_sink>()>;

  /// `open` is called on the new thread: it may block and throw, too. When `capacity` records wait,
  /// the oldest is dropped.
  explicit recorder(opener open,
                    std::size_t capacity = 4096,
                    std::chrono::milliseconds pause = std::chrono::seconds(1));
  /// Ends the thread; one that hangs in the system is left to the end of the process.
  ~recorder();
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;

  void record(watched x);

  /// What the system has refused since it last took something, told once; nothing: nothing new.
  std::optional<std::string> trouble();

  /// Nothing more comes: what was held back is written, too.
  void close();
  /// Closes, and waits until everything is written or refused once more, at most so long; tells
  /// whether everything is written.
  bool finish(std::chrono::milliseconds patience);

  std::uint64_t dropped() const;
  std::size_t waiting()
      const;  ///< neither written nor dropped; without the one that is written now

 private:
  struct desk;  // shared with the thread, which may outlive this
  static void work(const std::shared_ptr<desk>& at, const opener& open);

  std::shared_ptr<desk> desk_;
  std::jthread thread_;
};

}  // namespace troupe::runtime

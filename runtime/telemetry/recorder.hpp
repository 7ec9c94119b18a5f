// Who writes down what is watched, beside everything else: a slow or hung disk delays nobody.

#pragma once

#include "runtime/telemetry/step_report.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <variant>

namespace troupe::runtime {

/// What is told of a run as it goes on.
using watched = std::variant<step_report, validation_report>;

/// A file in which it is written. One thread; every call may block, and throws io_error when the
/// system refuses.
class record_sink {
 public:
  virtual ~record_sink() = default;
  virtual void write(const step_report& x) = 0;
  virtual void write(const validation_report& x) = 0;
  /// Writes what was held back.
  virtual void finish() {}
};

/// A sink on a thread of its own, with a bounded queue before it. One thread uses it; no call but
/// `finish` waits for anything.
class recorder {
 public:
  using opener = std::function<std::unique_ptr<record_sink>()>;

  /// `open` is called on the new thread: it may block and throw, too. When `capacity` records wait,
  /// the oldest is dropped.
  explicit recorder(opener open, std::size_t capacity = 4096);
  /// Ends the thread; one that hangs in the system is left to the end of the process.
  ~recorder();
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;

  void record(watched x);

  /// Throws what the sink has thrown; after that nothing more is written.
  void check() const;

  /// Nothing more comes: what was held back is written, too.
  void close();
  /// Closes, and waits until everything is written, at most so long; tells whether it is.
  bool finish(std::chrono::milliseconds patience);

  std::uint64_t dropped() const;
  std::size_t waiting() const;

 private:
  struct desk;  // shared with the thread, which may outlive this
  static void work(const std::shared_ptr<desk>& at, const opener& open);

  std::shared_ptr<desk> desk_;
  std::thread thread_;
};

}  // namespace troupe::runtime

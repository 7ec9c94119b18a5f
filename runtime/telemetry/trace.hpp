// What happened when: spans of all lanes, bounded, drawn by Chrome or Perfetto.

#pragma once

#include "runtime/core/ids.hpp"

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// How every file of write_chrome begins.
constexpr std::string_view trace_beginning = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";

/// Nanoseconds on the steady clock.
std::uint64_t now_ns();

struct span {
  std::string name;  ///< of an action: "0F3", "0I3.1"; "eval 0F3" in a validation; of a bucket:
                     ///< "reduce 2", "gather 2"; else "begin", "reduce", "update", ...
  int rank = 0;
  step_id step = {};
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  int track = 0;  ///< of the rank: 0 computes, 1 communicates beside it
};

/// Keeps the newest `capacity` spans and counts those it dropped. Any thread; a lane holds the lock
/// for the time of one assignment, so watching never delays it noticeably.
class trace_recorder {
 public:
  explicit trace_recorder(std::size_t capacity = std::size_t{1} << 20) : capacity_(capacity) {}

  void add(span x);

  std::vector<span> spans() const;  ///< in the order in which they ended
  std::uint64_t dropped() const;

  /// Trace Event Format, JSON: complete events, one process a rank. Throws io_error.
  void write_chrome(const std::filesystem::path& path) const;

 private:
  mutable std::mutex mutex_;
  std::size_t capacity_;
  std::uint64_t added_ = 0;
  std::vector<span> ring_;
};

}  // namespace troupe::runtime

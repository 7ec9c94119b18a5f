// A trace of all lanes: a bounded list of spans, for Chrome or Perfetto.

#pragma once

#include "runtime/core/ids.hpp"

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// First characters of every file of write_chrome.
constexpr std::string_view trace_beginning = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";

/// Nanoseconds on the steady clock.
std::uint64_t now_ns();

struct span {
  std::string name;  ///< action: "0F3", "0I3.1"; "eval 0F3" in a validation; bucket: "reduce 2",
                     ///< "gather 2"; other: "begin", "reduce", "update", ...
  int rank = 0;
  step_id step = {};
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  int track = 0;  ///< per rank: 0 computes, 1 communicates in parallel
};

/// Keeps the newest `capacity` spans and counts the dropped ones. Any thread. The lock is held for
/// one assignment only, so tracing does not delay lanes noticeably.
class trace_recorder {
 public:
  explicit trace_recorder(std::size_t capacity = std::size_t{1} << 20) : capacity_(capacity) {}

  void add(span x);

  std::vector<span> spans() const;  ///< in the order of their ends
  std::uint64_t dropped() const;

  /// Writes JSON in the Trace Event Format: complete events, one process per rank. Throws io_error.
  void write_chrome(const std::filesystem::path& path) const;

 private:
  mutable std::mutex mutex_;
  std::size_t capacity_;
  std::uint64_t added_ = 0;
  std::vector<span> ring_;
};

}  // namespace troupe::runtime

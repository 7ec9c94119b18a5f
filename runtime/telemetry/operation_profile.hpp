// A profile of step time: calls, time and rate of each kind of operation.

#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// First characters of every file of write_json.
constexpr std::string_view profile_beginning = "{\n \"steps\":";

/// Operations with the same name and extents.
struct operation_kind {
  std::string_view name;                ///< "linear_forward<bf16>"; static lifetime
  std::array<std::int64_t, 3> extents;  ///< R, N, K of a product; otherwise 0

  friend auto operator<=>(const operation_kind&, const operation_kind&) = default;
};

/// Totals of one kind.
struct operation_time {
  operation_kind kind;
  std::uint64_t calls = 0;
  double seconds = 0;
  double flops = 0;  ///< total; 0: unknown
  double bytes = 0;  ///< minimum bytes to move
};

/// Totals over all workers. Any thread.
class operation_profile {
 public:
  /// Adds one worker's operation times; `seconds` is the total time of its steps.
  void add(const std::vector<operation_time>& times, std::uint64_t steps, double seconds);

  /// Number of counted steps, summed over the workers.
  std::uint64_t steps() const;
  /// Longest first.
  std::vector<operation_time> times() const;
  /// Milliseconds of a worker's step, and the part of it without operations.
  double step_ms() const;
  double between_ms() const;

  /// A table: one line for each of the `most` longest kinds, then the rest and the time between.
  std::vector<std::string> table(std::size_t most) const;
  /// Format: docs/formats/operation_profile.md. Throws io_error.
  void write_json(const std::filesystem::path& path) const;

 private:
  mutable std::mutex mutex_;
  std::map<operation_kind, operation_time> all_;
  std::uint64_t steps_ = 0;
  double seconds_ = 0;
};

}  // namespace troupe::runtime

// Where the time of steps goes: each kind of operation, how often it ran, how long, how fast.

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

/// How every file of write_json begins.
constexpr std::string_view profile_beginning = "{\n \"steps\":";

/// Operations that are alike.
struct operation_kind {
  std::string_view name;                ///< "linear_forward<bf16>"; lives as long as the program
  std::array<std::int64_t, 3> extents;  ///< R, N, K of a product; else 0

  friend auto operator<=>(const operation_kind&, const operation_kind&) = default;
};

/// What operations of a kind did.
struct operation_time {
  operation_kind kind;
  std::uint64_t calls = 0;
  double seconds = 0;
  double flops = 0;  ///< of all of them; 0: not known
  double bytes = 0;  ///< that they had to move
};

/// What all workers spent, added up. Any thread.
class operation_profile {
 public:
  /// Of one worker: what its operations took in so many steps, which lasted so long in all.
  void add(const std::vector<operation_time>& times, std::uint64_t steps, double seconds);

  /// Steps that were counted, of all workers together.
  std::uint64_t steps() const;
  /// The longest first.
  std::vector<operation_time> times() const;
  /// Milliseconds that a worker's step took, and what of it none of its operations did.
  double step_ms() const;
  double between_ms() const;

  /// As a table: the `most` longest, one line each; then the rest, and what lay between.
  std::vector<std::string> table(std::size_t most) const;
  /// For programs: docs/formats/operation_profile.md. Throws io_error.
  void write_json(const std::filesystem::path& path) const;

 private:
  mutable std::mutex mutex_;
  std::map<operation_kind, operation_time> all_;
  std::uint64_t steps_ = 0;
  double seconds_ = 0;
};

}  // namespace troupe::runtime

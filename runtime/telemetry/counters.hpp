// Plain counts of what a worker moved and did. Values only: the owner of one decides who adds.

#pragma once

#include <atomic>
#include <cstdint>

namespace troupe::runtime {

struct transport_counters {
  std::atomic<std::uint64_t> bytes_handed = 0;  ///< changed hands without being copied
  std::atomic<std::uint64_t> bytes_copied = 0;
  std::atomic<std::uint64_t> bytes_read = 0;  ///< of these, read in another process's memory
  std::atomic<std::uint64_t> tickets = 0;
  std::atomic<std::uint64_t> dropped = 0;  ///< tickets that nobody had redeemed at the end
  std::atomic<std::uint64_t> refused = 0;  ///< messages that were none, or came too late
};

/// What was taken of arrays of other processes, for sums and gatherings.
struct window_counters {
  std::atomic<std::uint64_t> bytes_mapped = 0;    ///< used where they lie
  std::atomic<std::uint64_t> bytes_read = 0;      ///< copied by the kernel first
  std::atomic<std::uint64_t> bytes_received = 0;  ///< by messages
};

}  // namespace troupe::runtime

// Counters of a worker's transfers. The owner decides which threads add.

#pragma once

#include <atomic>
#include <cstdint>

namespace troupe::runtime {

struct transport_counters {
  std::atomic<std::uint64_t> bytes_handed = 0;  ///< transferred without a copy
  std::atomic<std::uint64_t> bytes_copied = 0;
  std::atomic<std::uint64_t> bytes_read = 0;  ///< of these, read from another process's memory
  std::atomic<std::uint64_t> tickets = 0;
  std::atomic<std::uint64_t> dropped = 0;  ///< tickets that were never redeemed
  std::atomic<std::uint64_t> refused = 0;  ///< messages that were invalid or late
};

/// Data taken from arrays of other processes for reductions and gathers.
struct window_counters {
  std::atomic<std::uint64_t> bytes_mapped = 0;    ///< used in place
  std::atomic<std::uint64_t> bytes_read = 0;      ///< copied by the kernel
  std::atomic<std::uint64_t> bytes_received = 0;  ///< received in messages
};

}  // namespace troupe::runtime

// How a rank that sleeps is woken, from its own process or from another one.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace troupe::runtime {

/// Lies in memory that processes share; all zero is a fresh one. One rank waits at it, anybody
/// rings.
struct window_bell {
  std::atomic<std::uint32_t> rung;
  std::atomic<std::uint32_t> sleepers;
};

/// Whatever was written before is seen by who wakes. Any thread.
void ring(window_bell& x);

/// Returns when `rung` is no longer `seen`, sometimes earlier; looks for the time of `spin`, then
/// sleeps. Who waits for a condition reads `rung` before the condition.
void await_ring(window_bell& x, std::uint32_t seen, std::chrono::microseconds spin);

}  // namespace troupe::runtime

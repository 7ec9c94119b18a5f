// Wakes a sleeping rank from its own process or from another one.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace troupe::runtime {

/// In shared memory; initialized by zeros. One rank waits, any thread rings.
struct window_bell {
  std::atomic<std::uint32_t> rung;
  std::atomic<std::uint32_t> sleepers;
};

/// Releases earlier writes to the woken rank. Any thread.
void ring(window_bell& x);

/// Waits until `rung` differs from `seen`; may return early. Polls for `spin`, then sleeps. To wait
/// for a condition, read `rung` before checking the condition.
void await_ring(window_bell& x, std::uint32_t seen, std::chrono::microseconds spin);

}  // namespace troupe::runtime

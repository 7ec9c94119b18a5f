#include "runtime/collective/window/bell.hpp"

#include <climits>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace troupe::runtime {

namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t)
              && std::atomic<std::uint32_t>::is_always_lock_free);

// std::atomic::wait uses a private futex, which other processes cannot wake.
void shared_futex(std::atomic<std::uint32_t>& word, int what, std::uint32_t value) {
  ::syscall(SYS_futex, &word, what, value, nullptr, nullptr, 0);
}

}  // namespace

void ring(window_bell& x) {
  x.rung.fetch_add(1);
  if (x.sleepers.load() > 0)
    shared_futex(x.rung, FUTEX_WAKE, INT_MAX);
}

void await_ring(window_bell& x, std::uint32_t seen, std::chrono::microseconds spin) {
  const auto end = std::chrono::steady_clock::now() + spin;
  do {
    if (x.rung.load(std::memory_order_acquire) != seen)
      return;
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < end);
  x.sleepers.fetch_add(1);
  if (x.rung.load() == seen)
    shared_futex(x.rung, FUTEX_WAIT, seen);
  x.sleepers.fetch_sub(1);
}

}  // namespace troupe::runtime

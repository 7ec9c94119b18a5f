// The one place where a lane waits. On a thread of its own it sleeps on a condition variable. On a
// fiber, as in the deterministic simulation, it gives the thread back to who runs the fiber, until
// what it waits for holds.
//
// Whatever a lane can come to waits here: the meetings of local groups, parameter gates, snapshots
// that are being read, and its own queue of work. Not simulated, and so not here: wires
// (runtime/transport/wire_*, ucx/), NCCL (runtime/collective/nccl*), queues of devices
// (runtime/device/cuda/), and threads that no lane waits for, or that only help it to compute:
// recorders, the log, readers of data, initial values. The test architecture/waits knows both
// lists.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace troupe::runtime {

/// What a fiber does in the place of its thread (runtime/device/fibers.hpp).
class running_fiber {
 public:
  virtual ~running_fiber() = default;

  /// Returns when `holds` does, which is asked on the same thread, without a lock. Throws
  /// `cancelled` when the fiber is to end.
  virtual void wait(std::function<bool()> holds) = 0;
  /// For that long by the clock of who runs it. Throws `cancelled` when the fiber is to end.
  virtual void sleep(std::uint64_t ns) = 0;
  /// Nanoseconds on that clock.
  virtual std::uint64_t now_ns() const = 0;

  /// The one that this thread runs now; null: none, as everywhere but in a simulation.
  static running_fiber* current();
  /// Said by who runs fibers, before and after; returns the one before.
  static running_fiber* exchange(running_fiber* next);
};

/// Whether a thread is in a wait of this place: who looks for one that hangs tells it from one that
/// only waits for it. Any thread reads it.
using wait_flag = std::atomic<bool>;

/// From now on the waits of this thread set it; null: nobody looks. Returns the one before.
wait_flag* wait_flag_of_thread(wait_flag* next);

/// Sets the flag of this thread, if it has one, for as long as it lives.
class flagged_wait {
 public:
  flagged_wait();
  ~flagged_wait();
  flagged_wait(const flagged_wait&) = delete;
  flagged_wait& operator=(const flagged_wait&) = delete;

 private:
  wait_flag* flag_;
};

/// A condition variable whose waits can be simulated. The promise is that of its namesake.
class wait_condition {
 public:
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

  /// `holds` reads what the lock guards. On a fiber others may run even where it holds already.
  /// Throws `cancelled`, without the lock, when it is waited on a fiber that is to end.
  template <class Holds>
  void wait(std::unique_lock<std::mutex>& lock, Holds holds) {
    const flagged_wait told;
    if (auto* const fiber = running_fiber::current()) {
      auto* const mutex = lock.mutex();
      lock.unlock();
      fiber->wait([&holds, mutex] {
        const std::lock_guard at_look(*mutex);
        return holds();
      });
      lock.lock();
      return;
    }
    changed_.wait(lock, std::move(holds));
  }

 private:
  std::condition_variable changed_;
};

/// Sleeps on a thread; on a fiber lets its clock pass.
void sleep_for(std::chrono::nanoseconds time);

}  // namespace troupe::runtime

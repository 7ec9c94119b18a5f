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

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

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

/// What a wait is for and who is missing, in words.
struct wait_report {
  std::string what = {};               ///< "all_reduce_sum"; empty: nobody knows
  std::vector<std::string> whom = {};  ///< by the names on the board (device/lane_board.hpp)
};

/// Who knows for whom others wait. Any thread asks.
class awaited {
 public:
  virtual ~awaited() = default;
  /// `number`: what the reason of the wait says.
  virtual wait_report missing(std::uint64_t number) const = 0;
};

/// Why a thread waits: a value that costs next to nothing on the way into a wait. Who looks puts it
/// into words.
struct wait_reason {
  enum class party : std::uint8_t {
    others,              ///< nobody says whom
    group,               ///< whom `by` names
    process,             ///< process `number`
    communication_lane,  ///< that of the same rank
    saver,               ///< the same
    predecessor,         ///< whoever had its name before, and was left behind
  };
  party whom = party::others;
  const char* what = "";  ///< a literal
  std::uint64_t number = 0;
  std::shared_ptr<const awaited> by = {};
};

/// What a thread says of itself to who looks for one that hangs. Any thread looks.
class watched_thread {
 public:
  struct seen {
    bool waits = false;
    std::uint64_t since_ns = 0;  ///< of the wait, else of the last sign of progress
    wait_reason why = {};
  };

  /// A new piece of work begins: whatever was said before is forgotten.
  void begin(std::uint64_t now_ns);
  void begin_wait(wait_reason why);
  void end_wait();
  /// It has got on with a long piece of work.
  void advance();
  seen look() const;

 private:
  mutable std::mutex mutex_;
  seen now_;
};

/// From now on the waits and the progress of this thread are told there; null: nobody looks.
/// Returns the one before.
watched_thread* watch_of_thread(watched_thread* next);

/// This thread has got on: said in loops of which one pass is short, where all of them may take
/// longer than anybody is suspected for.
void mark_progress();

/// This thread waits, for as long as it lives.
class flagged_wait {
 public:
  explicit flagged_wait(wait_reason why = {});
  ~flagged_wait();
  flagged_wait(const flagged_wait&) = delete;
  flagged_wait& operator=(const flagged_wait&) = delete;

 private:
  watched_thread* watch_;
};

/// A condition variable whose waits can be simulated. The promise is that of its namesake.
class wait_condition {
 public:
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

  /// `holds` reads what the lock guards. On a fiber others may run even where it holds already.
  /// Throws `cancelled`, without the lock, when it is waited on a fiber that is to end.
  template <class Holds>
  void wait(std::unique_lock<std::mutex>& lock, Holds holds, wait_reason why = {}) {
    if (auto* const fiber = running_fiber::current()) {
      const flagged_wait told(std::move(why));
      auto* const mutex = lock.mutex();
      lock.unlock();
      fiber->wait([&holds, mutex] {
        const std::lock_guard at_look(*mutex);
        return holds();
      });
      lock.lock();
      return;
    }
    if (holds())
      return;
    const flagged_wait told(std::move(why));
    changed_.wait(lock, std::move(holds));
  }

 private:
  std::condition_variable changed_;
};

/// Sleeps on a thread; on a fiber lets its clock pass.
void sleep_for(std::chrono::nanoseconds time);

}  // namespace troupe::runtime

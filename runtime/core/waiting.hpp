// All waits of a lane. On a thread of its own, a lane sleeps on a condition variable. On a fiber of
// the deterministic simulation, it returns the thread to the fiber's owner until its condition
// holds.
//
// Every wait that a lane can reach goes through here: local groups, parameter gates, snapshots that
// are still being read, and the lane's work queue. Not simulated, so they wait elsewhere:
//
//   * wires (runtime/transport/wire_*, ucx/), NCCL (runtime/collective/nccl*), device queues
//     (runtime/device/cuda/);
//   * threads that no lane waits for, or that only help it compute: recorders, the log,
//     readers of data, initial values.
//
// The test architecture/waits checks both lists.

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

/// The waits of a fiber, in place of its thread's (runtime/device/fibers.hpp).
class running_fiber {
 public:
  virtual ~running_fiber() = default;

  /// Returns once `holds` is true. `holds` is called on the same thread, without a lock. Throws
  /// `cancelled` if the fiber must end.
  virtual void wait(std::function<bool()> holds) = 0;
  /// Sleeps on the simulation's clock. Throws `cancelled` if the fiber must end.
  virtual void sleep(std::uint64_t ns) = 0;
  /// Nanoseconds on the simulation's clock.
  virtual std::uint64_t now_ns() const = 0;

  /// The fiber that runs on this thread; null outside a simulation.
  static running_fiber* current();
  /// Sets the fiber that runs on this thread. Returns the previous one. Called by the owner of the
  /// fibers.
  static running_fiber* exchange(running_fiber* next);
};

/// Describes a wait for people: what it is for, and which ranks are missing.
struct wait_report {
  std::string what = {};               ///< for example "all_reduce_sum"; empty if unknown
  std::vector<std::string> whom = {};  ///< names on the board (device/lane_board.hpp)
};

/// Knows which ranks a wait is missing. Any thread.
class awaited {
 public:
  virtual ~awaited() = default;
  /// `number` is wait_reason::number.
  virtual wait_report missing(std::uint64_t number) const = 0;
};

/// Why a thread waits. Cheap to create on the way into a wait; the failure detector turns it into
/// words.
struct wait_reason {
  enum class party : std::uint8_t {
    others,              ///< unknown
    group,               ///< the ranks that `by` names
    process,             ///< process `number`
    communication_lane,  ///< the communication lane of the same rank
    saver,               ///< the saver of the same rank
    predecessor,         ///< the predecessor of the same name, which was left behind
  };
  party whom = party::others;
  const char* what = "";  ///< a string literal
  std::uint64_t number = 0;
  std::shared_ptr<const awaited> by = {};
};

/// Work that a thread has handed on, as to a device. Any thread.
class work_elsewhere {
 public:
  virtual ~work_elsewhere() = default;
  /// True if it has made progress since the last call.
  virtual bool has_advanced() = 0;
};

/// Progress of a thread, as the failure detector sees it. Any thread may look.
class watched_thread {
 public:
  struct seen {
    bool waits = false;
    std::uint64_t since_ns = 0;  ///< start of the wait, or else the last progress
    wait_reason why = {};
  };

  /// Starts a new piece of work and clears the previous state.
  void begin(std::uint64_t now_ns);
  void begin_wait(wait_reason why);
  void end_wait();
  /// Reports progress within a long piece of work.
  void advance();
  /// Progress of that work then counts as progress of the thread.
  void follow(std::weak_ptr<work_elsewhere> x);
  seen look() const;

 private:
  mutable std::mutex mutex_;
  mutable seen now_;  ///< a look finds progress of the work elsewhere
  std::weak_ptr<work_elsewhere> elsewhere_;
};

/// Reports the waits and the progress of this thread to `next`; null stops it. Returns the previous
/// one.
watched_thread* watch_of_thread(watched_thread* next);

/// Reports progress of this thread. Call it in loops with short passes that may in total take
/// longer than the failure detector's timeout.
void mark_progress();

/// watched_thread::follow for this thread.
void follow_work(std::weak_ptr<work_elsewhere> x);

/// Reports this thread as waiting, for as long as the object lives.
class flagged_wait {
 public:
  explicit flagged_wait(wait_reason why = {});
  ~flagged_wait();
  flagged_wait(const flagged_wait&) = delete;
  flagged_wait& operator=(const flagged_wait&) = delete;

 private:
  watched_thread* watch_;
};

/// A condition variable that also works on fibers, with the contract of std::condition_variable.
class wait_condition {
 public:
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

  /// `holds` reads data that the lock guards. On a fiber, others may run even if it already holds.
  /// Throws `cancelled`, without the lock, on a fiber that must end.
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

/// Sleeps on a thread; on a fiber, advances the simulation's clock.
void sleep_for(std::chrono::nanoseconds time);

}  // namespace troupe::runtime

// Fibers: stacks that share one thread; each runs until its next wait (core/waiting.hpp).
//
// The deterministic simulation runs its lanes on fibers. Boost.Context switches between them, and
// the sanitizers are told about each switch.

#pragma once

#include "runtime/core/waiting.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// The fibers of one thread; only that thread uses the pool. The pool does not schedule: its owner
/// lists the runnable fibers and runs one of them.
class fiber_pool {
 public:
  using number = std::uint64_t;  ///< in order of creation, from 1

  fiber_pool();
  /// Ends the remaining fibers: see `abandon`.
  ~fiber_pool();
  fiber_pool(const fiber_pool&) = delete;
  fiber_pool& operator=(const fiber_pool&) = delete;

  /// Creates a fiber that runs `work`. An exception that leaves `work` ends the process.
  number start(std::string name, std::function<void()> work);

  /// Fibers that can continue now because the condition that they wait for holds, ascending.
  std::vector<number> runnable() const;
  /// Runs one fiber until it waits or ends.
  void run(number which);

  bool has_ended(number which) const;
  const std::string& name(number which) const;  ///< of a fiber that has not ended
  std::vector<number> alive() const;

  /// The current and all later waits of the fiber throw `cancelled`, so that it unwinds its stack
  /// and ends. Use it for a fiber with a wait that can never end.
  void abandon(number which);

  /// Returns when the fiber has ended. Called on a fiber, it waits; otherwise it runs other fibers
  /// through the `on_join` function. If no fiber can run, this one is abandoned and its name is
  /// added to `stuck`.
  void join(number which);
  /// Sets how `join` runs other fibers: one turn a call; false if none can run. Default: the first
  /// runnable fiber.
  void on_join(std::function<bool()> turn) { turn_ = std::move(turn); }
  const std::vector<std::string>& stuck() const { return stuck_; }

  /// The clock of the fibers; monotonic.
  void set_time(std::uint64_t ns) { now_ns_ = ns; }
  std::uint64_t now_ns() const { return now_ns_; }
  /// Earliest wake-up time of the sleeping fibers; empty if none sleeps.
  std::optional<std::uint64_t> next_wake() const;

 private:
  class fiber;

  fiber& at(number which) const;

  std::map<number, std::unique_ptr<fiber>> fibers_;  ///< not ended
  number next_ = 1;
  std::uint64_t now_ns_ = 0;
  std::function<bool()> turn_;
  std::vector<std::string> stuck_;
};

}  // namespace troupe::runtime

// Fibers: stacks between which one thread switches, each up to its next wait (core/waiting.hpp).
// Boost.Context does the switching; sanitizers are told of it. The deterministic simulation has its
// lanes on them.

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

/// The fibers of one thread, which alone uses this. None runs by itself: who owns the pool lists
/// those that can go on, and runs one of them.
class fiber_pool {
 public:
  using number = std::uint64_t;  ///< in the order of their beginning, from 1

  fiber_pool();
  /// Those that have not ended are ended: see `abandon`.
  ~fiber_pool();
  fiber_pool(const fiber_pool&) = delete;
  fiber_pool& operator=(const fiber_pool&) = delete;

  /// A new fiber, which does `work` when it is run. An exception that leaves `work` ends the
  /// process.
  number start(std::string name, std::function<void()> work);

  /// Those that can go on now, ascending: what they wait for holds.
  std::vector<number> runnable() const;
  /// Runs one of them until it waits or ends.
  void run(number which);

  bool has_ended(number which) const;
  const std::string& name(number which) const;  ///< of one that has not ended
  std::vector<number> alive() const;

  /// Its wait and all that come throw `cancelled`, so that it ends by itself and nothing of it is
  /// left. For one that waits for what will never be.
  void abandon(number which);

  /// Returns when it has ended. From a fiber it waits; else others are run meanwhile, by `turn`.
  /// One that cannot end is abandoned, and its name kept.
  void join(number which);
  /// How `join` lets others run: once, false when nobody can. Default: the first that can.
  void on_join(std::function<bool()> turn) { turn_ = std::move(turn); }
  const std::vector<std::string>& stuck() const { return stuck_; }

  /// The clock of the fibers; it never goes back.
  void set_time(std::uint64_t ns) { now_ns_ = ns; }
  std::uint64_t now_ns() const { return now_ns_; }
  /// When the first of those that sleep wakes; nothing: none sleeps.
  std::optional<std::uint64_t> next_wake() const;

 private:
  class fiber;

  fiber& at(number which) const;

  std::map<number, std::unique_ptr<fiber>> fibers_;  ///< that have not ended
  number next_ = 1;
  std::uint64_t now_ns_ = 0;
  std::function<bool()> turn_;
  std::vector<std::string> stuck_;
};

}  // namespace troupe::runtime

// Times of a stage's actions, and their sums.

#pragma once

#include "messages/training/step.hpp"
#include "runtime/device/stream.hpp"

#include <cstdint>

namespace troupe::actors {

/// Moments of an action, as its stream records them.
struct time_spent {
  runtime::moment begin = {}, end = {};
  /// Begin and end of redeeming inputs of other ranks.
  runtime::moment redeems = {}, redeemed = {};
  std::uint64_t bytes = 0;   ///< redeemed bytes
  std::uint64_t waited = 0;  ///< nanoseconds of waits for other ranks in collectives
  /// Time without a core, in nanoseconds: of the action, and of its redeeming.
  std::uint64_t no_core = 0, no_core_redeeming = 0;
};

/// Times of one action on its stream, in nanoseconds.
struct action_time {
  std::int64_t all = 0;        ///< from begin to end
  std::int64_t redeeming = 0;  ///< part of `all` spent redeeming results of other ranks
  std::uint64_t bytes = 0;     ///< redeemed bytes; 0: `redeeming` is noise
  std::uint64_t waited = 0;    ///< part of `all` in collectives, waiting for other ranks
  std::uint64_t no_core = 0;   ///< part of `all` in which the lane was runnable but had no core
  std::uint64_t no_core_redeeming = 0;  ///< part of `redeeming` without a core
};

/// Time without a core counts neither as computing nor as redeeming, and waits in collectives count
/// as waits for ranks. A wait ends when its lane has a core again, so some time without a core is
/// subtracted twice. The clocks are read at different times, too; the sums are clamped at 0.
void add_action(const action_time& x, messages::stage_times& to);

}  // namespace troupe::actors

// Where the time of a stage's actions went, in numbers.

#pragma once

#include "messages/training/step.hpp"

#include <cstdint>

namespace troupe::actors {

/// Of one action, on its stream, in nanoseconds.
struct action_time {
  std::int64_t all = 0;        ///< from its beginning to its end
  std::int64_t redeeming = 0;  ///< of that: it took what other ranks had handed on
  std::uint64_t bytes = 0;     ///< so many; 0: it took nothing, and what `redeeming` says is noise
  std::uint64_t no_core = 0;   ///< of all: its lane could have gone on and had no core
  std::uint64_t no_core_redeeming = 0;  ///< of `redeeming`
};

/// What had no core is neither computing nor redeeming. The two clocks are not read at once, so
/// that one may seem to be in no time of the other: nothing becomes negative.
void add_action(const action_time& x, messages::stage_times& to);

}  // namespace troupe::actors

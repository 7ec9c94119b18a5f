// Where the state of a new worker comes from, as a value.

#pragma once

#include "runtime/core/ids.hpp"

#include <cstdint>

namespace troupe::runtime {

/// The nearest that has it.
enum class state_tier : std::uint8_t {
  start,   ///< initial values, or what the run was started from
  estate,  ///< what its process kept of the rank (rank_estate.hpp)
  disk,    ///< a checkpoint that this run has saved
  keeper,  ///< what another process keeps of the rank (kept_states.hpp)
  local,   ///< what that process has written of it to a disk of its host (local_states.hpp)
};

struct state_source {
  state_tier tier = {};
  step_id step = {};        ///< the state after this one
  std::int32_t keeper = 0;  ///< of the last two: the process that has it

  friend bool operator==(const state_source&, const state_source&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, state_source& x) {
  return f(x.tier, x.step, x.keeper);
}

}  // namespace troupe::runtime

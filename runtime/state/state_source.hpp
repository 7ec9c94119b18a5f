// Source of the initial state of a worker.

#pragma once

#include "runtime/core/ids.hpp"

#include <cstdint>

namespace troupe::runtime {

/// Sources of a state. A worker uses the nearest one available.
enum class state_tier : std::uint8_t {
  start,   ///< initial values, or the checkpoint that the run was started from
  estate,  ///< the rank's estate in its own process (rank_estate.hpp)
  disk,    ///< a checkpoint of this run
  keeper,  ///< the copy in another process (kept_states.hpp)
  local,   ///< the copy that the keeper wrote to its local disk (local_states.hpp)
};

struct state_source {
  state_tier tier = {};
  step_id step = {};        ///< the state after this step
  std::int32_t keeper = 0;  ///< the process that has it; only for `keeper` and `local`

  friend bool operator==(const state_source&, const state_source&) = default;
};

}  // namespace troupe::runtime

// What a stage's lane works on. Only the lane touches it while there is work; the actor reads what
// a finished piece of work has left.

#pragma once

#include "actors/stage/stage.hpp"

#include <memory>

namespace troupe::actors {

/// Shared, because the lane may still hold it when the actor is gone.
struct stage_state::bench {
  std::unique_ptr<runtime::worker> worker;
  std::unique_ptr<runtime::communicator> data, ties;
  std::int64_t parameters = 0;
};

/// Each array in memory of its own.
runtime::bundle copied(const std::vector<runtime::named_array>& arrays, runtime::stream& by);

}  // namespace troupe::actors

// Faults of lanes and states that need no message: hanging lanes and flipped bits.

#pragma once

#include "actors/host/registries.hpp"
#include "actors/simulation/disturbance.hpp"
#include "runtime/job/job.hpp"

#include <string>
#include <vector>

namespace troupe::actors::simulation {

/// True if the reason of a run's end is detected corruption; there it takes the place of
/// killed_text.
bool names_wrong_bits(const std::string& reason);

/// One fault in the syntax of `faults.death` (planted_death.hpp) for each disturbance that this job
/// can suffer. Wrong bits need several replicas to be detected; a hang needs a lane of that kind.
struct planted_fault {
  std::string text;
  disturbance what;
};
std::vector<planted_fault> planted_in(const runtime::training_job& job,
                                      const std::vector<disturbance>& all);

/// Flips one bit of a rank's kept state, in both copies, between two generations. Returns the rank;
/// -1 if some rank has no kept state.
int damage_kept(estate_registry& estates, const runtime::training_job& job, std::uint64_t which);

}  // namespace troupe::actors::simulation

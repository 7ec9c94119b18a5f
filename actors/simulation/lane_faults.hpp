// What befalls lanes and states without a message: a lane that hangs, a bit that is another.

#pragma once

#include "actors/node/registries.hpp"
#include "actors/simulation/disturbance.hpp"
#include "runtime/trainer/job.hpp"

#include <string>
#include <vector>

namespace troupe::actors::simulation {

/// In place of killed_text, in what a run says that ends by wrong bits.
bool names_wrong_bits(const std::string& reason);

/// As `faults.death` takes it (planted_death.hpp), one for each that this job can suffer: only
/// where several hold the same bits is a wrong one found, and only lanes that are there hang.
struct planted_fault {
  std::string text;
  disturbance what;
};
std::vector<planted_fault> planted_in(const runtime::training_job& job,
                                      const std::vector<disturbance>& all);

/// Between two generations: one bit of what a rank has kept is another, in both of its states. The
/// rank's number; -1: not every rank has kept one.
int damage_kept(estate_registry& estates, const runtime::training_job& job, std::uint64_t which);

}  // namespace troupe::actors::simulation

// From a resolved job to what its actors share: data sets, the state to start from.

#pragma once

#include "actors/node/resources.hpp"

#include <memory>

namespace troupe::actors {

/// Opens data sets, finds and verifies the checkpoint to go on from, checks the plan of every step.
/// Throws input_error and io_error, before anybody is spawned, and `cancelled` soon after `stop`
/// is.
std::shared_ptr<resources> prepare(const runtime::training_job& job,
                                   const runtime::cancel_token& stop = {});

}  // namespace troupe::actors

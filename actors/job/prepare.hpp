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

/// How the tensors of one process's workers are handed on. Throws io_error: there is no UCX.
std::shared_ptr<runtime::transport> make_transport(runtime::transports how);

}  // namespace troupe::actors

// The manifest of a job's checkpoint.

#pragma once

#include "actors/host/opened_job.hpp"
#include "messages/checkpoint/snapshot.hpp"
#include "runtime/checkpoint/manifest.hpp"

#include <string>

namespace troupe::actors {

/// Everything except the shards.
runtime::checkpoint_manifest manifest_of(const messages::save& order,
                                         const opened_job& job,
                                         const std::string& identity);

}  // namespace troupe::actors

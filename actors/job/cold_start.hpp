// Cold start: all processes of a run are gone, and it is started again in its folder.
//
// The ledger of the dead run lists the steps that it committed after its newest checkpoint. The
// ledger verifies the states on local disks (local_states.hpp). The new run continues that ledger.
// It searches for these states when its processes stand, like a successor that finds all processes
// dead: docs/protocol/succession.md.
//
//   COLD-1  Only the same job continues from the local states of a dead run: with the same
//           identity, origin, number of processes and last saved checkpoint.
//   COLD-2  Committed steps run again when their states are lost, with the same digests, and are
//           reported once.

#pragma once

#include "actors/job/prepare.hpp"
#include "runtime/process/run_folder.hpp"

#include <filesystem>

namespace troupe::actors {

/// Takes over a dead run for a prepared job that starts from a checkpoint or from the beginning.
/// Returns true when the job has taken over the ledger of the run that was in that folder, from
/// that checkpoint on; ledger and logs are then continued. Returns false when there is nothing
/// newer, or when it does not belong to this job; a warning says why. The ledger file is then
/// unchanged. Throws io_error when the logs cannot be continued.
bool take_up_dead_run(prepared_job& to, const runtime::held_run_folder& folder);

/// Called before a run starts its own ledger in the folder. Renames the ledger of an earlier run
/// when its local states may still be wanted, for example after a mistyped command, and logs that.
/// Earlier renamed ledgers stay. Throws io_error.
void keep_ledger_left(const std::filesystem::path& ledger);

}  // namespace troupe::actors

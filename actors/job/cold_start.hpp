// A cold start: all processes of a run are gone, and it is started again, in its folder. The ledger
// that it has left says what it had committed beyond its newest checkpoint, so that the states that
// its processes had written to local disks (local_states.hpp) can be held to it. The new run takes
// that ledger up and looks for them when its processes stand, as a successor does whose processes
// are all dead: docs/protocol/succession.md.
//
//   COLD-1  Only the same job goes on from the local states of a run that died: of the same
//           identity and origin, placed in as many processes, from the checkpoint that it had
//           saved last.
//   COLD-2  What was committed runs again where it is lost, comes out with the same digest, and is
//           told once.

#pragma once

#include "actors/job/prepare.hpp"
#include "runtime/process/run_folder.hpp"

#include <filesystem>

namespace troupe::actors {

/// Of a prepared job that starts at a checkpoint, or at its beginning. True: it has the ledger of
/// the run that was in that folder before, from that checkpoint on, and both ledger and logs are
/// written on. False: there is nothing newer, or it is not of this job, which is told. Until then
/// the ledger there is as it was left: where it cannot be read or replaced, that is told. Throws
/// io_error: the logs cannot be written on.
bool take_up_dead_run(prepared_job& to, const runtime::held_run_folder& folder);

/// Before a run begins a ledger of its own there: renames that of one before whose local states may
/// be wanted after all (a mistyped command is no reason to lose them), and says so; whatever was
/// kept so before stays. Throws io_error.
void keep_ledger_left(const std::filesystem::path& ledger);

}  // namespace troupe::actors

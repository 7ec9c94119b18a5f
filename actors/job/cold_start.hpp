// A cold start: all processes of a run are gone, and it is started again, in its folder. The ledger
// that it has left says what it had committed beyond its newest checkpoint, so that the states that
// its processes had written to local disks (local_states.hpp) can be held to it. The new run takes
// that ledger up and looks for them when its processes stand, as a successor does whose processes
// are all dead: docs/protocol/succession.md.
//
//   COLD-1  Only the same job goes on from the local states of a run that died: of the same
//           identity, placed in as many processes, from the checkpoint that it had saved last.
//   COLD-2  What was committed runs again where it is lost, comes out with the same digest, and is
//           told once.

#pragma once

#include "actors/job/prepare.hpp"
#include "runtime/process/run_folder.hpp"

namespace troupe::actors {

/// Of a prepared job that starts at a checkpoint, or at its beginning. True: it has the ledger of
/// the run that was in that folder before, from that checkpoint on, and both ledger and logs are
/// written on. False: there is nothing newer, or it is not of this job, which is told. Until then
/// the ledger there is as it was left. Throws io_error.
bool take_up_dead_run(prepared_job& to, const runtime::held_run_folder& folder);

}  // namespace troupe::actors

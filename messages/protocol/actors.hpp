// What each actor can be told. Failure is always the end of the actor, with a reason.

#pragma once

#include "messages/core/type_ids.hpp"

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

namespace troupe::messages {

/// One for each process: spawns workers when told, ends generations.
using node_actor = caf::typed_actor<
    // Spawn one actor of the job.
    caf::replies_to<spawn>::with<caf::actor>,
    // Whatever waits in this generation is released at once.
    caf::reacts_to<end_generation>,
    // Send everybody home, then end.
    caf::reacts_to<dismiss>>;

/// The root. Drives the steps, decides, commits.
using supervisor_actor = caf::typed_actor<
    // A replica has been built.
    caf::reacts_to<ready>,
    // A replica's gradients stand.
    caf::reacts_to<vote>,
    // A replica's state stands.
    caf::reacts_to<applied>,
    // A checkpoint is durable.
    caf::reacts_to<saved>,
    // A checkpoint could not be written.
    caf::reacts_to<save_failed>,
    // It is time to try once more.
    caf::reacts_to<save_again>,
    // Finish the step, save, end.
    caf::reacts_to<drain>>;

/// One for each data-parallel replica: speaks for its stages.
using replica_actor = caf::typed_actor<
    // Pass these on to every stage.
    caf::reacts_to<run_step>,
    caf::reacts_to<decision>,
    caf::reacts_to<take_snapshot>,
    // Merge these, and pass on when all have come.
    caf::reacts_to<ready>,
    caf::reacts_to<vote>,
    caf::reacts_to<applied>>;

/// One for each rank: carries out its row of the plan through its lane.
using stage_actor = caf::typed_actor<
    // Whom it works with.
    caf::reacts_to<meet>,
    // Carry out a step.
    caf::reacts_to<run_step>,
    // What the actions wait for.
    caf::reacts_to<activation>,
    caf::reacts_to<gradient>,
    caf::reacts_to<batch_ready>,
    // Where a behaviour decides: what the first tensor rank has chosen.
    caf::reacts_to<chosen>,
    // To itself, when its behaviour would rather wait.
    caf::reacts_to<ask_again>,
    // Update.
    caf::reacts_to<decision>,
    // Copy the state for the checkpointer.
    caf::reacts_to<take_snapshot>,
    // Its lane has finished a piece of work.
    caf::reacts_to<lane_done>>;

/// Serves micro-batches on demand.
using loader_actor = caf::typed_actor<caf::replies_to<request_batch>::with<batch_ready>>;

/// Writes snapshots beside the training.
using checkpointer_actor = caf::typed_actor<
    // A checkpoint of so many parts is coming.
    caf::reacts_to<save>,
    // One part.
    caf::reacts_to<snapshot>>;

/// Watches, and never delays.
using monitor_actor
    = caf::typed_actor<caf::reacts_to<committed>,
                       caf::reacts_to<validated>,
                       // Asked once, at the end: everything before it has been written.
                       caf::replies_to<conclude>::with<concluded>>;

/// Whoever else wants to be told what is committed. Nobody waits for it, and its death ends
/// nothing.
using viewer_actor = caf::typed_actor<caf::reacts_to<committed>, caf::reacts_to<validated>>;

}  // namespace troupe::messages

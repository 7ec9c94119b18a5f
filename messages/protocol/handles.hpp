// What each actor can be told, as the types of their handles. Failure is always the end of the
// actor, with a reason.
//
// A message may carry a handle, and a handle names the messages that it takes: so messages are only
// declared here. Who sends or handles them includes messages/protocol/actors.hpp.

#pragma once

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

namespace troupe::messages {

// job.hpp, spawn.hpp
struct spawn_loader;
struct spawn_keeper;
struct spawn_checkpointer;
struct spawn_shard_writer;
struct spawn_monitor;
struct spawn_viewer;
struct spawn_replica;
struct spawn_stage;
struct loader_spawned;
struct keeper_spawned;
struct checkpointer_spawned;
struct shard_writer_spawned;
struct monitor_spawned;
struct viewer_spawned;
struct replica_spawned;
struct stage_spawned;
struct meet;
struct ready;
struct all_restored;
struct drain;
struct lane_done;
struct save_again;
struct conclude;
struct concluded;
struct shut_down;
// recovery.hpp
struct end_generation;
struct generation_ended;
struct look_again;
struct use_loader;
struct use_keeper;
struct use_checkpointer;
struct use_shard_writer;
struct abandon;
struct abandoned;
struct job_over;
// process.hpp
struct start_process;
struct process_started;
struct process_died;
struct process_may_move;
// rendezvous.hpp
struct join;
struct admitted;
struct present;
struct withdraw;
struct connect_to;
struct connected;
struct forget;
struct agent_told;
struct withdrawn;
struct is_late;
struct look_for_node;
struct ledger_written;
struct round_decided;
// standing.hpp
struct serve;
struct serving;
struct start_node;
struct kill_node;
struct kill_agent;
struct dismiss;
struct hold_is_over;
struct keep_run;
struct keep_ledger;
struct ledger_kept;
struct succeed_here;
struct successor_ended;
// suspicion.hpp
struct look_at_lanes;
struct suspected;
struct taken_for_dead;
// step.hpp, handoff.hpp, batch.hpp, snapshot.hpp, keeping.hpp
struct run_step;
struct chosen;
struct ask_again;
struct vote;
struct decision;
struct applied;
struct committed;
struct validated;
struct happened;
struct activation;
struct gradient;
struct check_pass;
struct request_batch;
struct batch_failed;
struct batch_ready;
struct take_snapshot;
struct drop_snapshot;
struct save;
struct snapshot;
struct saved;
struct save_failed;
struct write_shards;
struct shards_written;
struct shards_refused;
struct keep;
struct kept;
struct fetch_kept;
struct store_kept;
struct kept_state;
struct keep_refused;
struct find_stored;
struct stored_found;

/// The root. Drives the steps, decides, commits.
using supervisor_actor = caf::typed_actor<
    // A replica has been built.
    caf::reacts_to<ready>,
    // A replica's gradients stand.
    caf::reacts_to<vote>,
    // A replica's state stands.
    caf::reacts_to<applied>,
    // For another replica.
    caf::reacts_to<check_pass>,
    // A checkpoint is durable.
    caf::reacts_to<saved>,
    // A checkpoint could not be written.
    caf::reacts_to<save_failed>,
    // A save whose parts will not come is forgotten.
    caf::reacts_to<abandoned>,
    // The states of a process are kept in another one.
    caf::reacts_to<kept>,
    // A process stands, or is gone.
    caf::reacts_to<process_started>,
    caf::reacts_to<process_died>,
    // Another host has room for one.
    caf::reacts_to<process_may_move>,
    // It is time to try once more.
    caf::reacts_to<save_again>,
    // An actor hangs: it counts as dead.
    caf::reacts_to<taken_for_dead>,
    // Finish the step, save, end.
    caf::reacts_to<drain>>;

/// One for each data-parallel replica: speaks for its stages.
using replica_actor = caf::typed_actor<
    // Pass these on to every stage.
    caf::reacts_to<run_step>,
    caf::reacts_to<decision>,
    caf::reacts_to<take_snapshot>,
    caf::reacts_to<drop_snapshot>,
    caf::reacts_to<use_loader>,
    caf::reacts_to<use_keeper>,
    caf::reacts_to<use_checkpointer>,
    // Merge these, and pass on when all have come.
    caf::reacts_to<ready>,
    caf::reacts_to<vote>,
    caf::reacts_to<applied>,
    // Between one of its stages and another replica's.
    caf::reacts_to<check_pass>>;

/// One for each rank: carries out its row of the plan through its lane.
using stage_actor = caf::typed_actor<
    // The actors that it works with.
    caf::reacts_to<meet>,
    // Carry out a step.
    caf::reacts_to<run_step>,
    // What the actions wait for.
    caf::reacts_to<activation>,
    caf::reacts_to<gradient>,
    caf::reacts_to<batch_ready>,
    caf::reacts_to<batch_failed>,
    // A pass of another replica, to compute again.
    caf::reacts_to<check_pass>,
    // Where a behaviour decides: what the first tensor rank has chosen.
    caf::reacts_to<chosen>,
    // To itself, when its behaviour would rather wait.
    caf::reacts_to<ask_again>,
    // Update.
    caf::reacts_to<decision>,
    // Copy the state for the checkpointer, and free the copy that it does not want.
    caf::reacts_to<take_snapshot>,
    caf::reacts_to<drop_snapshot>,
    // The state to begin with, of one that kept it.
    caf::reacts_to<kept_state>,
    // The state that it gave to be kept did not come as it was sealed.
    caf::reacts_to<keep_refused>,
    // A service was replaced.
    caf::reacts_to<use_loader>,
    caf::reacts_to<use_keeper>,
    caf::reacts_to<use_checkpointer>,
    // Its lane has finished a piece of work, or what it handed on was redeemed.
    caf::reacts_to<lane_done>>;

/// Serves micro-batches on demand.
using loader_actor = caf::typed_actor<caf::replies_to<request_batch>::with<batch_ready>>;

/// Keeps the newest states of another process's ranks.
using keeper_actor = caf::typed_actor<
    // One rank's, as tickets.
    caf::reacts_to<keep>,
    // Give one back: answered by `kept_state`.
    caf::reacts_to<fetch_kept>,
    // Write them to the local disk.
    caf::reacts_to<store_kept>>;

/// Writes snapshots beside the training.
using checkpointer_actor = caf::typed_actor<
    // A checkpoint of so many parts is coming.
    caf::reacts_to<save>,
    // One part.
    caf::reacts_to<snapshot>,
    // Who writes the parts of a process's ranks, and what came of it.
    caf::reacts_to<use_shard_writer>,
    caf::reacts_to<shards_written>,
    caf::reacts_to<shards_refused>,
    // No more parts come from this generation.
    caf::reacts_to<abandon>>;

/// One for each process that hosts ranks, where there are several: writes their files.
using shard_writer_actor = caf::typed_actor<caf::reacts_to<write_shards>>;

/// Watches, and never delays.
using monitor_actor
    = caf::typed_actor<caf::reacts_to<committed>,
                       caf::reacts_to<validated>,
                       caf::reacts_to<happened>,
                       // Asked once, at the end: everything before it has been written.
                       caf::replies_to<conclude>::with<concluded>>;

/// A user's actor that watches a job. Nobody waits for it, and its death ends nothing.
using viewer_actor = caf::typed_actor<caf::reacts_to<committed>, caf::reacts_to<validated>>;

/// One for each process: spawns workers when told, and ends their generation.
using node_actor = caf::typed_actor<
    // Spawn one actor of the job.
    caf::replies_to<spawn_loader>::with<loader_spawned>,
    caf::replies_to<spawn_keeper>::with<keeper_spawned>,
    caf::replies_to<spawn_checkpointer>::with<checkpointer_spawned>,
    caf::replies_to<spawn_shard_writer>::with<shard_writer_spawned>,
    caf::replies_to<spawn_monitor>::with<monitor_spawned>,
    caf::replies_to<spawn_viewer>::with<viewer_spawned>,
    caf::replies_to<spawn_replica>::with<replica_spawned>,
    caf::replies_to<spawn_stage>::with<stage_spawned>,
    // End a generation, and answer when everybody of it is gone.
    caf::replies_to<end_generation>::with<generation_ended>,
    // What is on the disk of this host of the states of other processes' ranks.
    caf::replies_to<find_stored>::with<stored_found>,
    // To itself: somebody is gone.
    caf::reacts_to<look_again>,
    // From its watch: somebody hangs.
    caf::reacts_to<suspected>,
    // What workers are filled from may be closed.
    caf::reacts_to<all_restored>,
    // Stop all that it spawned, then end.
    caf::reacts_to<shut_down>>;

/// Starts the processes of a job and learns how they end, on whatever host they are.
using agent_actor = caf::typed_actor<
    // Answered by process_started.
    caf::reacts_to<start_process>,
    // The job is over: end all of them, then end.
    caf::reacts_to<shut_down>>;

/// Where the processes of a run come together.
using rendezvous_actor = caf::typed_actor<
    // Who is to host ranks asks for the job.
    caf::replies_to<join>::with<admitted>,
    // It stands, or cannot take part.
    caf::reacts_to<present>,
    caf::replies_to<withdraw>::with<withdrawn>>;

/// The same, and the one who has processes started: beside the supervisor.
using launcher_actor = agent_actor::extend_with<rendezvous_actor>::extend<
    // What the host agent has said.
    caf::reacts_to<agent_told>,
    // To itself: it is time.
    caf::reacts_to<is_late>,
    caf::reacts_to<look_for_node>,
    // The same: others are to have what the ledger has, or who goes on where hosts are lost.
    caf::reacts_to<ledger_written>,
    caf::reacts_to<round_decided>>;

/// Of a process that was started by hand and hosts no rank: starts those that do, for one job after
/// the other.
using standing_node_actor = caf::typed_actor<
    // A launcher has a place for it, or wants it to stand by.
    caf::replies_to<serve>::with<serving>,
    // Its orders; answered by agent_told.
    caf::reacts_to<start_node>,
    caf::reacts_to<kill_node>,
    caf::reacts_to<kill_agent>,
    caf::reacts_to<dismiss>,
    // What its own host agent has said.
    caf::reacts_to<agent_told>,
    // Nobody came in the place of a launcher that is gone.
    caf::reacts_to<hold_is_over>,
    // What it needs to start one itself; and to itself: it is time, and what came of it.
    caf::reacts_to<keep_run>,
    caf::replies_to<keep_ledger>::with<ledger_kept>,
    caf::reacts_to<succeed_here>,
    caf::reacts_to<successor_ended>,
    // End, with whatever it has started.
    caf::reacts_to<shut_down>>;

/// One for each process: connects it with others.
using connector_actor = caf::typed_actor<
    // Answered when it is, or cannot be.
    caf::replies_to<connect_to>::with<connected>,
    // It is gone: nobody here waits for it any more.
    caf::reacts_to<forget>>;

/// Looks for who hangs in a process, for its node, and for who keeps that.
using hang_watch_actor = caf::typed_actor<
    // To itself: it is time.
    caf::reacts_to<look_at_lanes>>;

/// One for each process: keeps a node and a supervisor there, and knows how the job ended.
using front_actor = caf::typed_actor<
    // The end that was meant.
    caf::reacts_to<job_over>,
    // The node or the supervisor hangs.
    caf::reacts_to<suspected>,
    // Pass this on to whoever is the supervisor.
    caf::reacts_to<drain>>;

}  // namespace troupe::messages

// The list of all messages, and the messages that each actor accepts. An actor reports failure by
// ending with a reason.
//
// Messages contain handles, and handles name messages, so messages are only declared here. Include
// messages/protocol/actors.hpp to send or handle them.

#pragma once

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

/// The list of all messages. A message that is not here does not compile where it is sent or
/// handled.
// clang-format off
#define TROUPE_MESSAGES(MESSAGE) \
  MESSAGE(activation) MESSAGE(gradient) MESSAGE(run_step) MESSAGE(vote) MESSAGE(decision) \
  MESSAGE(applied) MESSAGE(committed) MESSAGE(validated) MESSAGE(request_batch) \
  MESSAGE(batch_ready) MESSAGE(take_snapshot) MESSAGE(save) MESSAGE(snapshot) MESSAGE(saved) \
  MESSAGE(ready) MESSAGE(all_restored) MESSAGE(drain) MESSAGE(lane_done) MESSAGE(spawn_loader) \
  MESSAGE(spawn_checkpointer) MESSAGE(spawn_monitor) MESSAGE(spawn_viewer) MESSAGE(spawn_replica) \
  MESSAGE(spawn_stage) MESSAGE(loader_spawned) MESSAGE(checkpointer_spawned) \
  MESSAGE(monitor_spawned) MESSAGE(viewer_spawned) MESSAGE(replica_spawned) \
  MESSAGE(stage_spawned) MESSAGE(meet) MESSAGE(group_opened) MESSAGE(shut_down) MESSAGE(conclude) \
  MESSAGE(concluded) \
  MESSAGE(save_failed) MESSAGE(save_again) MESSAGE(chosen) MESSAGE(ask_again) \
  MESSAGE(end_generation) MESSAGE(generation_ended) MESSAGE(look_again) MESSAGE(look_at_lanes) \
  MESSAGE(use_loader) MESSAGE(use_checkpointer) MESSAGE(abandon) MESSAGE(abandoned) \
  MESSAGE(job_over) MESSAGE(happened) MESSAGE(start_process) MESSAGE(process_started) \
  MESSAGE(process_died) MESSAGE(process_may_move) MESSAGE(keep) MESSAGE(kept) MESSAGE(fetch_kept) \
  MESSAGE(store_kept) MESSAGE(kept_state) MESSAGE(keep_refused) MESSAGE(find_stored) \
  MESSAGE(stored_found) MESSAGE(spawn_keeper) MESSAGE(keeper_spawned) MESSAGE(use_keeper) \
  MESSAGE(suspected) MESSAGE(taken_for_dead) MESSAGE(join) MESSAGE(admitted) MESSAGE(present) \
  MESSAGE(withdraw) MESSAGE(connect_to) MESSAGE(connected) MESSAGE(forget) MESSAGE(agent_told) \
  MESSAGE(withdrawn) MESSAGE(is_late) MESSAGE(look_for_node) MESSAGE(ledger_written) \
  MESSAGE(round_decided) MESSAGE(spawn_shard_writer) MESSAGE(shard_writer_spawned) \
  MESSAGE(use_shard_writer) MESSAGE(write_shards) MESSAGE(shards_written) MESSAGE(shards_refused) \
  MESSAGE(serve) MESSAGE(serving) MESSAGE(start_node) MESSAGE(kill_node) MESSAGE(kill_agent) \
  MESSAGE(dismiss) MESSAGE(drop_snapshot) MESSAGE(check_pass) MESSAGE(hold_is_over) \
  MESSAGE(keep_run) MESSAGE(keep_ledger) MESSAGE(ledger_kept) MESSAGE(succeed_here) \
  MESSAGE(successor_ended) MESSAGE(batch_failed) MESSAGE(use_processes) MESSAGE(sample_due) \
  MESSAGE(measure) MESSAGE(measured) MESSAGE(commands_wait) MESSAGE(told_record) \
  MESSAGE(connection_changed) MESSAGE(run_ended) MESSAGE(records_wait) MESSAGE(use_branches) \
  MESSAGE(generate_text) MESSAGE(stop_text) MESSAGE(texts_grew) MESSAGE(embed_texts) \
  MESSAGE(texts_embedded) MESSAGE(requests_wait) MESSAGE(step_due)
// clang-format on

namespace troupe::messages {

#define TROUPE_DECLARE_MESSAGE(name) struct name;
TROUPE_MESSAGES(TROUPE_DECLARE_MESSAGE)
#undef TROUPE_DECLARE_MESSAGE

/// Receives reports of replicas: the supervisor or a node.
using report_actor = caf::typed_actor<
    // All ranks are built.
    caf::reacts_to<ready>,
    // All gradients are reduced.
    caf::reacts_to<vote>,
    // All states are updated.
    caf::reacts_to<applied>,
    // Keepers have the states of their processes.
    caf::reacts_to<kept>>;

/// Passes orders on to stages: a replica or a node.
using order_actor = caf::typed_actor<caf::reacts_to<run_step>,
                                     caf::reacts_to<decision>,
                                     caf::reacts_to<take_snapshot>,
                                     caf::reacts_to<drop_snapshot>,
                                     caf::reacts_to<use_checkpointer>>;

/// The root actor: drives, decides and commits steps.
using supervisor_actor = report_actor::extend<
    // Tell this to the members of other replicas.
    caf::reacts_to<group_opened>,
    // Forward this to another replica.
    caf::reacts_to<check_pass>,
    // A checkpoint is durable.
    caf::reacts_to<saved>,
    // A checkpoint could not be written.
    caf::reacts_to<save_failed>,
    // A save with missing parts was dropped.
    caf::reacts_to<abandoned>,
    // A process runs, or died.
    caf::reacts_to<process_started>,
    caf::reacts_to<process_died>,
    // A process may move to another host.
    caf::reacts_to<process_may_move>,
    // To itself: retry the save.
    caf::reacts_to<save_again>,
    // Take viewers' commands from the desk (actors/support/command_desk.hpp).
    caf::reacts_to<commands_wait>,
    // An actor hangs and counts as dead.
    caf::reacts_to<taken_for_dead>,
    // Finish the step, save, end.
    caf::reacts_to<drain>>;

/// One per data-parallel replica: represents its stages.
using replica_actor = order_actor::extend<
    // Forwarded to the stages of a process.
    caf::reacts_to<use_loader>,
    caf::reacts_to<use_keeper>,
    // Forwarded from a local stage, and to the local members.
    caf::reacts_to<group_opened>,
    // Merged over the stages, then forwarded.
    caf::reacts_to<ready>,
    caf::reacts_to<vote>,
    caf::reacts_to<applied>,
    // Forwarded between a local stage and another replica.
    caf::reacts_to<check_pass>>;

/// One per rank: executes its row of the plan on its lane.
using stage_actor = caf::typed_actor<
    // Handles of its peers.
    caf::reacts_to<meet>,
    // A group can be joined.
    caf::reacts_to<group_opened>,
    // Execute a step.
    caf::reacts_to<run_step>,
    // Inputs of actions.
    caf::reacts_to<activation>,
    caf::reacts_to<gradient>,
    caf::reacts_to<batch_ready>,
    caf::reacts_to<batch_failed>,
    // Recompute a pass of another replica.
    caf::reacts_to<check_pass>,
    // The choice of the leading rank of the stage, if a behaviour decides.
    caf::reacts_to<chosen>,
    // To itself: ask the behaviour again.
    caf::reacts_to<ask_again>,
    // Apply the update.
    caf::reacts_to<decision>,
    // Copy the state for the checkpointer; free an unused copy.
    caf::reacts_to<take_snapshot>,
    caf::reacts_to<drop_snapshot>,
    // Initial state from a keeper.
    caf::reacts_to<kept_state>,
    // A keeper received a damaged state.
    caf::reacts_to<keep_refused>,
    // A service actor was replaced.
    caf::reacts_to<use_loader>,
    caf::reacts_to<use_keeper>,
    caf::reacts_to<use_checkpointer>,
    // Its lane finished a piece of work, or a hand-off was redeemed.
    caf::reacts_to<lane_done>>;

/// Serves micro-batches on request.
using loader_actor = caf::typed_actor<caf::replies_to<request_batch>::with<batch_ready>>;

/// Keeps the newest states of another process's ranks.
using keeper_actor = caf::typed_actor<
    // A rank's state, as tickets.
    caf::reacts_to<keep>,
    // Return a state: answered by `kept_state`.
    caf::reacts_to<fetch_kept>,
    // Write the states to the local disk.
    caf::reacts_to<store_kept>>;

/// Writes checkpoints while training continues.
using checkpointer_actor = caf::typed_actor<
    // Announces a checkpoint and the number of its parts.
    caf::reacts_to<save>,
    // A part of the checkpoint.
    caf::reacts_to<snapshot>,
    // The shard writer of a process, and its results.
    caf::reacts_to<use_shard_writer>,
    caf::reacts_to<shards_written>,
    caf::reacts_to<shards_refused>,
    // This generation sends no more parts.
    caf::reacts_to<abandon>>;

/// One per process that hosts ranks, in multi-process runs: writes their checkpoint files.
using shard_writer_actor = caf::typed_actor<caf::reacts_to<write_shards>>;

/// Writes logs; never delays training.
using monitor_actor
    = caf::typed_actor<caf::reacts_to<committed>,
                       caf::reacts_to<validated>,
                       caf::reacts_to<happened>,
                       // The processes to measure. To itself: measure again.
                       caf::reacts_to<use_processes>,
                       caf::reacts_to<sample_due>,
                       // Sent once, at the end; answered when everything is written.
                       caf::replies_to<conclude>::with<concluded>>;

/// A user's actor that observes a job. No actor waits for it; its failure is ignored.
using viewer_actor = caf::typed_actor<caf::reacts_to<committed>, caf::reacts_to<validated>>;

/// A user's actor that watches a run from another process (actors/monitor/attach.hpp).
using observer_actor = caf::typed_actor<caf::reacts_to<committed>,
                                        caf::reacts_to<validated>,
                                        caf::reacts_to<happened>,
                                        caf::reacts_to<told_record>,
                                        caf::reacts_to<connection_changed>,
                                        caf::reacts_to<run_ended>>;

/// One per attachment: sends its observer one message at a time.
using courier_actor = caf::typed_actor<
    // Records for the observer wait.
    caf::reacts_to<records_wait>>;

/// Part of the node: spawns an actor of the job. An actor has one line here.
using spawner_actor
    = caf::typed_actor<caf::replies_to<spawn_loader>::with<loader_spawned>,
                       caf::replies_to<spawn_keeper>::with<keeper_spawned>,
                       caf::replies_to<spawn_checkpointer>::with<checkpointer_spawned>,
                       caf::replies_to<spawn_shard_writer>::with<shard_writer_spawned>,
                       caf::replies_to<spawn_monitor>::with<monitor_spawned>,
                       caf::replies_to<spawn_viewer>::with<viewer_spawned>,
                       caf::replies_to<spawn_replica>::with<replica_spawned>,
                       caf::replies_to<spawn_stage>::with<stage_spawned>>;

/// One per process: spawns workers and ends their generation. Also a branch of the tree of
/// processes: passes orders down and merged reports up.
using node_actor = spawner_actor::extend_with<order_actor>::extend_with<report_actor>::extend<
    // Its neighbours in the tree.
    caf::reacts_to<use_branches>,
    // End a generation; answered when all its actors are gone.
    caf::replies_to<end_generation>::with<generation_ended>,
    // Lists the states of other processes' ranks on this host's disk.
    caf::replies_to<find_stored>::with<stored_found>,
    // Measure this process, for viewers: time, memory, actors and lanes.
    caf::replies_to<measure>::with<measured>,
    // To itself: an actor or lane is gone.
    caf::reacts_to<look_again>,
    // From the hang watch: an actor or lane hangs.
    caf::reacts_to<suspected>,
    // All workers have restored their state: close its source.
    caf::reacts_to<all_restored>,
    // Stop all spawned actors, then end.
    caf::reacts_to<shut_down>>;

/// Starts the processes of a job on any host and reports how they end.
using agent_actor = caf::typed_actor<
    // Answered by process_started.
    caf::reacts_to<start_process>,
    // The job is over: end all processes, then end.
    caf::reacts_to<shut_down>>;

/// The meeting point of a run's processes.
using rendezvous_actor = caf::typed_actor<
    // A process that will host ranks requests the job.
    caf::replies_to<join>::with<admitted>,
    // The process is ready, or cannot take part.
    caf::reacts_to<present>,
    caf::replies_to<withdraw>::with<withdrawn>>;

/// Rendezvous and agent in one; runs beside the supervisor.
using launcher_actor = agent_actor::extend_with<rendezvous_actor>::extend<
    // Answers of the host agent.
    caf::reacts_to<agent_told>,
    // To itself: timeouts.
    caf::reacts_to<is_late>,
    caf::reacts_to<look_for_node>,
    // To itself: new ledger lines to copy to other hosts; the arbiter's decision after a loss of
    // hosts.
    caf::reacts_to<ledger_written>,
    caf::reacts_to<round_decided>>;

/// The actor of a standing node: a process that an operator started. It hosts no ranks; it starts
/// processes that do, for one job after another.
using standing_node_actor = caf::typed_actor<
    // Serve a job, or stand by as a spare.
    caf::replies_to<serve>::with<serving>,
    // Orders; answered by agent_told.
    caf::reacts_to<start_node>,
    caf::reacts_to<kill_node>,
    caf::reacts_to<kill_agent>,
    caf::reacts_to<dismiss>,
    // Answers of its own host agent.
    caf::reacts_to<agent_told>,
    // To itself: no successor of a lost launcher came.
    caf::reacts_to<hold_is_over>,
    // Data to start a successor here; to itself: start it, and its end.
    caf::reacts_to<keep_run>,
    caf::replies_to<keep_ledger>::with<ledger_kept>,
    caf::reacts_to<succeed_here>,
    caf::reacts_to<successor_ended>,
    // End all started processes, then end.
    caf::reacts_to<shut_down>>;

/// One per process: connects it to others.
using connector_actor = caf::typed_actor<
    // Answered once all are connected, or when one cannot be reached.
    caf::replies_to<connect_to>::with<connected>,
    // The other process is gone: stop waiting for it.
    caf::reacts_to<forget>>;

/// Failure detector for hangs in a process; reports to its node, and for the node itself to the
/// front.
using hang_watch_actor = caf::typed_actor<
    // To itself: time to look.
    caf::reacts_to<look_at_lanes>>;

/// Computes texts and vectors, on a thread of its own (actors/generator).
using generator_actor = caf::typed_actor<
    // Answered by texts_grew, after each forward pass.
    caf::reacts_to<generate_text>,
    caf::reacts_to<stop_text>,
    // Answered by texts_embedded.
    caf::reacts_to<embed_texts>,
    // A generator sends it to itself: it computes the next forward pass then.
    caf::reacts_to<step_due>>;

/// Answers HTTP requests with generated texts (actors/server).
using server_actor = caf::typed_actor<
    // HTTP requests wait at its desk.
    caf::reacts_to<requests_wait>,
    // Answers of the generator.
    caf::reacts_to<texts_grew>,
    caf::reacts_to<texts_embedded>,
    // Refuse new requests, finish the others, end.
    caf::reacts_to<drain>>;

/// One in the supervisor's process: replaces its node and supervisor if they die, and knows how the
/// job ended.
using front_actor = caf::typed_actor<
    // The job has ended.
    caf::reacts_to<job_over>,
    // The node or the supervisor hangs.
    caf::reacts_to<suspected>,
    // Forwarded to the current supervisor.
    caf::reacts_to<drain>>;

}  // namespace troupe::messages

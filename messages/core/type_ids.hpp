// The list of all messages.
//
// All processes of a job run the same build. CAF 0.17 puts the name of the type on the wire, CAF
// 0.18 its position in this list. Both write fields in the order in which inspect() visits them.
//
// A type that is missing here arrives at another node as an empty message; so do all types if a
// system config lacks this block. The sender then prints one line on stderr.
// tests/messages/wire_test.cpp has an example of each type and does not compile without it. With
// `check_messages` every message of a run goes through bytes.

#pragma once

#include "messages/checkpoint/keeping.hpp"
#include "messages/checkpoint/snapshot.hpp"
#include "messages/control/job.hpp"
#include "messages/control/process.hpp"
#include "messages/control/recovery.hpp"
#include "messages/control/rendezvous.hpp"
#include "messages/control/sampling.hpp"
#include "messages/control/spawn.hpp"
#include "messages/control/standing.hpp"
#include "messages/control/suspicion.hpp"
#include "messages/control/watching.hpp"
#include "messages/core/stored_message.hpp"
#include "messages/data/batch.hpp"
#include "messages/training/handoff.hpp"
#include "messages/training/step.hpp"

#include <caf/fwd.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/make_message.hpp>
#include <caf/type_id.hpp>

// clang-format off
#define TROUPE_MESSAGES(MESSAGE) \
  MESSAGE(activation) MESSAGE(gradient) MESSAGE(run_step) MESSAGE(vote) MESSAGE(decision) \
  MESSAGE(applied) MESSAGE(committed) MESSAGE(validated) MESSAGE(request_batch) \
  MESSAGE(batch_ready) MESSAGE(take_snapshot) MESSAGE(save) MESSAGE(snapshot) MESSAGE(saved) \
  MESSAGE(ready) MESSAGE(all_restored) MESSAGE(drain) MESSAGE(lane_done) MESSAGE(spawn_loader) \
  MESSAGE(spawn_checkpointer) MESSAGE(spawn_monitor) MESSAGE(spawn_viewer) MESSAGE(spawn_replica) \
  MESSAGE(spawn_stage) MESSAGE(loader_spawned) MESSAGE(checkpointer_spawned) \
  MESSAGE(monitor_spawned) MESSAGE(viewer_spawned) MESSAGE(replica_spawned) \
  MESSAGE(stage_spawned) MESSAGE(meet) MESSAGE(shut_down) MESSAGE(conclude) MESSAGE(concluded) \
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
  MESSAGE(connection_changed) MESSAGE(run_ended) MESSAGE(records_wait)
// clang-format on

CAF_BEGIN_TYPE_ID_BLOCK(troupe_messages, caf::first_custom_type_id)
#define TROUPE_ADD_TYPE_ID(name) CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::name))
  TROUPE_MESSAGES(TROUPE_ADD_TYPE_ID)
#undef TROUPE_ADD_TYPE_ID
CAF_END_TYPE_ID_BLOCK(troupe_messages)

// CAF's containers of each message, with code to encode, copy and print it: compiled once, in
// instances.cpp.
#define TROUPE_INSTANTIATE(how, name)                                             \
  how template class caf::detail::type_erased_value_impl<troupe::messages::name>; \
  how template class caf::detail::tuple_vals_impl<caf::detail::message_data,      \
                                                  troupe::messages::name>;        \
  how template class caf::detail::tuple_vals<troupe::messages::name>;             \
  how template class caf::detail::tuple_vals_impl<caf::type_erased_tuple, troupe::messages::name>;
#ifndef TROUPE_INSTANCES
#define TROUPE_DECLARE_INSTANCES(name) TROUPE_INSTANTIATE(extern, name)
TROUPE_MESSAGES(TROUPE_DECLARE_INSTANCES)
#undef TROUPE_DECLARE_INSTANCES
#endif

namespace troupe::messages {

/// Makes all messages known to a system that is made with `config`.
void add_message_types(caf::actor_system_config& config);

}  // namespace troupe::messages

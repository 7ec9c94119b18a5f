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
#include "messages/control/spawn.hpp"
#include "messages/control/standing.hpp"
#include "messages/control/suspicion.hpp"
#include "messages/data/batch.hpp"
#include "messages/training/handoff.hpp"
#include "messages/training/step.hpp"

#include <caf/type_id.hpp>

CAF_BEGIN_TYPE_ID_BLOCK(troupe_messages, caf::first_custom_type_id)

  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::activation))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::gradient))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::run_step))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::vote))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::decision))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::applied))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::committed))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::validated))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::request_batch))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::batch_ready))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::take_snapshot))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::save))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::snapshot))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::saved))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::ready))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::all_restored))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::drain))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::lane_done))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::spawn_loader))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::spawn_checkpointer))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::spawn_monitor))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::spawn_viewer))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::spawn_replica))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::spawn_stage))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::loader_spawned))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::checkpointer_spawned))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::monitor_spawned))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::viewer_spawned))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::replica_spawned))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::stage_spawned))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::meet))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::shut_down))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::conclude))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::concluded))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::save_failed))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::save_again))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::chosen))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::ask_again))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::end_generation))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::generation_ended))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::look_again))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::look_at_lanes))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::use_loader))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::use_checkpointer))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::abandon))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::abandoned))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::job_over))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::happened))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::start_process))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::process_started))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::process_died))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::process_may_move))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::keep))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::kept))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::fetch_kept))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::store_kept))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::kept_state))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::keep_refused))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::find_stored))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::stored_found))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::spawn_keeper))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::keeper_spawned))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::use_keeper))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::suspected))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::taken_for_dead))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::join))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::admitted))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::present))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::withdraw))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::connect_to))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::connected))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::forget))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::agent_told))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::withdrawn))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::is_late))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::look_for_node))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::ledger_written))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::round_decided))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::spawn_shard_writer))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::shard_writer_spawned))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::use_shard_writer))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::write_shards))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::shards_written))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::shards_refused))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::serve))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::serving))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::start_node))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::kill_node))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::kill_agent))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::dismiss))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::drop_snapshot))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::check_pass))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::hold_is_over))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::keep_run))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::keep_ledger))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::ledger_kept))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::succeed_here))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::successor_ended))
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::batch_failed))

CAF_END_TYPE_ID_BLOCK(troupe_messages)

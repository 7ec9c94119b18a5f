// Examples of the messages that start, connect and end processes and hosts.

#pragma once

#include "tests/messages/message_example.hpp"

namespace troupe::tests {
namespace {

template <>
ready example(const wire&) {
  return {g, 1, 1000};
}
template <>
all_restored example(const wire&) {
  return {g};
}
template <>
drain example(const wire&) {
  return {"SIGTERM"};
}
template <>
lane_done example(const wire&) {
  return {7, "it broke", true, true, true};
}
template <>
save_again example(const wire&) {
  return {g};
}
template <>
shut_down example(const wire&) {
  return {g};
}
template <>
conclude example(const wire&) {
  return {g};
}
template <>
concluded example(const wire&) {
  return {g};
}
template <>
spawn_loader example(const wire&) {
  return {g, job()};
}
template <>
spawn_checkpointer example(const wire& w) {
  return {g, job(), w.handle<supervisor_actor>()};
}
template <>
spawn_monitor example(const wire&) {
  return {g, job()};
}
template <>
spawn_viewer example(const wire& w) {
  return {g, job(), "mine", w.handle<supervisor_actor>()};
}
template <>
spawn_replica example(const wire& w) {
  return {g,
          job(),
          1,
          {{w.handle<node_actor>(),
            w.handle<loader_actor>(),
            w.handle<keeper_actor>(),
            {runtime::state_tier::keeper, step, 1},
            w.handle<keeper_actor>()}},
          w.handle<supervisor_actor>(),
          w.handle<checkpointer_actor>()};
}
template <>
spawn_stage example(const wire&) {
  return {g, job(), {runtime::state_tier::estate, step}, 1, "0.1.0"};
}
template <>
end_generation example(const wire&) {
  return {g, job(), {1, 3}};
}
template <>
generation_ended example(const wire&) {
  return {g, true, 7, 8, 4, {{1, {7, 8}}}, {"lane:0.1"}};
}
template <>
commands_wait example(const wire&) {
  return {g, true};
}
template <>
told_record example(const wire&) {
  return {"save", "{}"};
}
template <>
connection_changed example(const wire&) {
  return {"lost the run"};
}
template <>
run_ended example(const wire&) {
  return {run_ended::outcome::lost, 2, "the disk is full"};
}
template <>
records_wait example(const wire&) {
  return {7};
}
template <>
use_processes example(const wire& w) {
  return {g, {w.handle<node_actor>()}};
}
template <>
sample_due example(const wire&) {
  return {g};
}
template <>
measure example(const wire&) {
  return {g};
}
template <>
measured example(const wire&) {
  return {.generation = g,
          .host = "host",
          .pid = 7,
          .up_s = 1.5,
          .cpu_s = 2.5,
          .resident_bytes = 3,
          .peak_resident_bytes = 4,
          .memory = {{"workers", 5}},
          .transfers = {{"tickets", 6}},
          .leases = 8,
          .sent = {{"stage:0.1", {1, 2}}},
          .received = {{"loader", {3, 4}}},
          .queues = {{"stage:0.1", 2}},
          .energy_j = 9.5,
          .devices = {{1, "GPU", 2, 3, 4, 0.5, 6, 7}},
          .members = {{"lane:0.1", "waits", "1F0", {"stage:0.0"}, 0.5, 10}},
          .warnings = {{true, "the disk is full"}}};
}
template <>
look_again example(const wire&) {
  return {g};
}
template <>
look_at_lanes example(const wire&) {
  return {7};
}
template <>
suspected example(const wire&) {
  return {g, "lane:0.1", "it hangs", 12};
}
template <>
taken_for_dead example(const wire&) {
  return {g, "loader", "loader: it hangs"};
}
template <>
use_loader example(const wire& w) {
  return {g, 1, w.handle<loader_actor>()};
}
template <>
use_keeper example(const wire& w) {
  return {g, 1, w.handle<keeper_actor>(), w.handle<keeper_actor>()};
}
template <>
spawn_shard_writer example(const wire&) {
  return {g, job(), 1, true};
}
template <>
shard_writer_spawned example(const wire& w) {
  return {w.handle<shard_writer_actor>()};
}
template <>
use_shard_writer example(const wire& w) {
  return {g, 1, w.handle<shard_writer_actor>()};
}
template <>
spawn_keeper example(const wire& w) {
  return {g, job(), 1, w.handle<supervisor_actor>()};
}
template <>
keeper_spawned example(const wire& w) {
  return {w.handle<keeper_actor>()};
}
template <>
start_process example(const wire& w) {
  return {g, 1, w.handle<supervisor_actor>(), true};
}
template <>
process_started example(const wire& w) {
  return {g, 1, 2, true, "host-0", w.handle<node_actor>(), "why not"};
}
template <>
process_died example(const wire&) {
  return {g, 1, 2, "killed by signal 9"};
}
template <>
process_may_move example(const wire&) {
  return {g, 1, 2, "the node at 10.0.0.2:7000"};
}

process_address address() {
  return {.who = {.process = 1, .incarnation = 2},
          .host = "127.0.0.1",
          .port = 40123,
          .transport = "127.0.0.1:40124",
          .windows = "host-0 7"};
}

template <>
join example(const wire&) {
  return {.who = {.process = 1, .incarnation = 2},
          .protocol = process_protocol + 1,
          .program = "troupe 1",
          .host = "host-0",
          .pid = 17,
          .start_time = 99};
}
template <>
admitted example(const wire&) {
  return {job(), "0123456789abcdef", "secret"};
}
template <>
present example(const wire& w) {
  return {address(), w.handle<node_actor>(), w.handle<connector_actor>()};
}
template <>
withdraw example(const wire&) {
  return {{1, 2}, "no memory"};
}
template <>
withdrawn example(const wire&) {
  return {{1, 2}};
}
template <>
is_late example(const wire&) {
  return {{1, 2}};
}
template <>
look_for_node example(const wire&) {
  return {2, true};
}
template <>
connect_to example(const wire&) {
  return {address()};
}
template <>
connected example(const wire&) {
  return {{1, 2}, "no listener"};
}
template <>
forget example(const wire&) {
  return {{1, 2}, "killed by SIGKILL"};
}
template <>
agent_told example(const wire&) {
  return {1, 2, "{}", true};
}
template <>
serve example(const wire& w) {
  return {.protocol = process_protocol + 1,
          .program = "troupe 1",
          .run = "0123456789abcdef",
          .host = 4,
          .process = 3,
          .suspicion = 2.5,
          .incarnation = 2,
          .succeeded = true,
          .address = "10.0.0.1",
          .port = 40123,
          .over = true,
          .launcher = w.handle<launcher_actor>()};
}
template <>
serving example(const wire&) {
  return {"host-0", "/runs/one", {{{1, 2}, 3, 4711, 12345}}};
}
template <>
start_node example(const wire&) {
  return {7, {1, 2}};
}
template <>
ledger_written example(const wire&) {
  return {80, "{}\n"};
}
template <>
round_decided example(const wire&) {
  return {7, 3, round_decided::outcome::lost, "another process does"};
}
template <>
keep_run example(const wire&) {
  return {2, "10.0.0.1", 7000, "{}", "order", "{}", "secret", "/save", "/home", 4, {1, 2}, 300};
}
template <>
keep_ledger example(const wire&) {
  return {70, "{}\n"};
}
template <>
ledger_kept example(const wire&) {
  return {73};
}
template <>
succeed_here example(const wire&) {
  return {3, 1};
}
template <>
successor_ended example(const wire&) {
  return {3, 1, "exit code 2", true};
}
template <>
hold_is_over example(const wire&) {
  return {3, 1};
}
template <>
kill_node example(const wire&) {
  return {8, 1, 2};
}
template <>
kill_agent example(const wire&) {
  return {1};
}
template <>
dismiss example(const wire&) {
  return {2};
}
template <>
use_checkpointer example(const wire& w) {
  return {g, w.handle<checkpointer_actor>()};
}
template <>
abandon example(const wire&) {
  return {g};
}
template <>
abandoned example(const wire&) {
  return {g};
}
template <>
job_over example(const wire&) {
  return {2, "the disk is full"};
}
template <>
loader_spawned example(const wire& w) {
  return {w.handle<loader_actor>()};
}
template <>
checkpointer_spawned example(const wire& w) {
  return {w.handle<checkpointer_actor>()};
}
template <>
monitor_spawned example(const wire& w) {
  return {w.handle<monitor_actor>()};
}
template <>
viewer_spawned example(const wire& w) {
  return {w.handle<viewer_actor>()};
}
template <>
replica_spawned example(const wire& w) {
  return {w.handle<replica_actor>()};
}
template <>
stage_spawned example(const wire& w) {
  return {w.handle<stage_actor>()};
}
template <>
meet example(const wire& w) {
  const auto stage = w.handle<stage_actor>();
  return {g,
          w.handle<replica_actor>(),
          {stage, stage},
          {stage},
          w.handle<loader_actor>(),
          w.handle<checkpointer_actor>()};
}

}  // namespace
}  // namespace troupe::tests

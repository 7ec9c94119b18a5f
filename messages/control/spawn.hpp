// Messages that spawn actors. They contain what the actor needs, as values that can travel. The
// node adds what belongs to its process (lanes, pools, transport, data sets).
//
//   supervisor -> node   use_branches    handles of its neighbours in the tree of processes
//                        spawn_monitor, spawn_viewer, spawn_loader, spawn_keeper,
//                        spawn_checkpointer, spawn_shard_writer, spawn_replica
//   replica -> node      spawn_stage
//   node -> requester    monitor_spawned, ...
//   replica -> stage     meet            handles of its peers
//   stage -> its replica -> supervisor -> the other replicas with members -> their stages
//                        group_opened    how to join a group of NCCL between processes

#pragma once

#include "messages/core/inspect.hpp"
#include "messages/protocol/handles.hpp"
#include "runtime/core/ids.hpp"
#include "runtime/state/state_source.hpp"
#include "runtime/telemetry/step_report.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::messages {

/// A resolved job and its starting point.
struct job_description {
  std::string settings = {};    ///< JSON; see runtime/job/job_json.hpp
  std::string identity = {};    ///< JSON: what determines bits; its schedule may be a file
  std::uint64_t iteration = 0;  ///< iteration of the initial state
  std::uint64_t consumed = 0;   ///< samples consumed until then
  std::string start = {};       ///< folder of its checkpoint; empty: initial values
  bool with_moments = false;    ///< load moments too; false: start from zero
  /// Absolute path of the folder for new checkpoints, equal for all processes. Empty: save none.
  std::string save = {};
  runtime::skipped_steps skipped = {};
  runtime::loss_scale scale = {};  ///< for f16; the default if none was saved
  bool validates = false;          ///< there are validation samples
  bool tests = false;              ///< there are test samples
  double matrix_rate = 0;          ///< matrix products of all workers in FLOP/s; 0: not requested
  std::vector<std::string> viewers = {};  ///< names known to the node
};

struct spawn_loader {
  runtime::generation_id generation = {};
  job_description job = {};
};

struct spawn_keeper {
  runtime::generation_id generation = {};
  job_description job = {};
  int process = 0;               ///< keeps the states of this process's ranks
  report_actor reports_to = {};  ///< the node that spawns it
};

struct spawn_checkpointer {
  runtime::generation_id generation = {};
  job_description job = {};
  supervisor_actor supervisor = {};
};

struct spawn_shard_writer {
  runtime::generation_id generation = {};
  job_description job = {};
  int process = 0;  ///< writes for the ranks of this process, which spawns it
  bool has_folder
      = false;  ///< the supervisor's process sees `checkpoints.save`, so this one must too
};

struct spawn_monitor {
  runtime::generation_id generation = {};
  job_description job = {};
};

struct spawn_viewer {
  runtime::generation_id generation = {};
  job_description job = {};
  std::string name = {};
  supervisor_actor supervisor = {};  ///< receives the viewer's requests
};

/// A process that hosts ranks, with the actors that serve them.
struct hosting_process {
  int process = 0;
  node_actor node = {};
  loader_actor loader = {};
  keeper_actor keeper = {};           ///< keeper of their states in another process, if any
  runtime::state_source source = {};  ///< source of their initial states
  keeper_actor holder = {};           ///< keeper of that state, if the source is a keeper
};

/// A process below another one in the tree of processes.
struct branch_below {
  int process = 0;
  node_actor node = {};
  /// Replicas live there or farther below: it gets orders for them, and sends their reports.
  bool has_replicas = false;
};

/// The node's place in the tree of processes. Sent before the node's replicas are spawned.
struct use_branches {
  runtime::generation_id generation = {};
  int process = 0;
  report_actor above = {};
  std::vector<branch_below> below = {};
  int replicas = 0;  ///< in this process and in all below it
};

struct spawn_replica {
  runtime::generation_id generation = {};
  job_description job = {};
  int replica = 0;
  /// Hosts of its ranks, ascending: with those of all ranks, bytes would grow with the square.
  std::vector<hosting_process> processes = {};
  supervisor_actor supervisor = {};
  report_actor reports_to = {};  ///< the node that spawns it; with one process the supervisor
  checkpointer_actor checkpointer = {};
};

struct spawn_stage {
  runtime::generation_id generation = {};
  job_description job = {};
  runtime::state_source source = {};  ///< source of its worker's initial state
  int rank = 0;                       ///< of the job
  std::string name = {};              ///< its rank's: seats::name
};

struct loader_spawned {
  loader_actor loader = {};
};
struct keeper_spawned {
  keeper_actor keeper = {};
};
struct checkpointer_spawned {
  checkpointer_actor checkpointer = {};
};
struct shard_writer_spawned {
  shard_writer_actor writer = {};
};
struct monitor_spawned {
  monitor_actor monitor = {};
};
struct viewer_spawned {
  viewer_actor viewer = {};
};
struct replica_spawned {
  replica_actor replica = {};
};
struct stage_spawned {
  stage_actor stage = {};
};

/// First message of a replica to its stages.
struct meet {
  runtime::generation_id generation = {};
  replica_actor replica = {};               ///< receives the stage's reports
  std::vector<stage_actor> pipeline = {};   ///< differ only in their pipeline ranks, in order
  std::vector<stage_actor> followers = {};  ///< carry out what this stage chooses
  loader_actor loader = {};
  checkpointer_actor checkpointer = {};
  keeper_actor keeper = {};  ///< keeper of its states, if any
  keeper_actor holder = {};  ///< keeper of its initial state, if the source is a keeper
};

/// Sent by the first rank of a group with ranks in several processes, after `meet`.
struct group_opened {
  runtime::generation_id generation = {};
  std::string group = {};             ///< unique within a generation
  std::vector<int> members = {};      ///< ranks of the job, in the order of the group
  std::vector<std::uint8_t> id = {};  ///< see nccl_id
};

}  // namespace troupe::messages

// Messages that spawn actors. They contain what the actor needs, as values that can travel. The
// node adds what belongs to its process (lanes, pools, transport, data sets).
//
//   supervisor -> node   spawn_monitor, spawn_viewer, spawn_loader, spawn_keeper,
//                        spawn_checkpointer, spawn_shard_writer, spawn_replica
//   replica -> node      spawn_stage
//   node -> requester    monitor_spawned, ...
//   replica -> stage     meet            handles of its peers

#pragma once

#include "messages/protocol/handles.hpp"
#include "runtime/core/ids.hpp"
#include "runtime/state/state_source.hpp"
#include "runtime/telemetry/step_report.hpp"

#include <caf/meta/type_name.hpp>

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

  friend bool operator==(const job_description&, const job_description&) = default;
};

struct spawn_loader {
  runtime::generation_id generation = {};
  job_description job = {};

  friend bool operator==(const spawn_loader&, const spawn_loader&) = default;
};

struct spawn_keeper {
  runtime::generation_id generation = {};
  job_description job = {};
  int process = 0;  ///< keeps the states of this process's ranks
  supervisor_actor supervisor = {};

  friend bool operator==(const spawn_keeper&, const spawn_keeper&) = default;
};

struct spawn_checkpointer {
  runtime::generation_id generation = {};
  job_description job = {};
  supervisor_actor supervisor = {};

  friend bool operator==(const spawn_checkpointer&, const spawn_checkpointer&) = default;
};

struct spawn_shard_writer {
  runtime::generation_id generation = {};
  job_description job = {};
  int process = 0;  ///< writes for the ranks of this process, which spawns it
  bool has_folder
      = false;  ///< the supervisor's process sees `checkpoints.save`, so this one must too

  friend bool operator==(const spawn_shard_writer&, const spawn_shard_writer&) = default;
};

struct spawn_monitor {
  runtime::generation_id generation = {};
  job_description job = {};

  friend bool operator==(const spawn_monitor&, const spawn_monitor&) = default;
};

struct spawn_viewer {
  runtime::generation_id generation = {};
  job_description job = {};
  std::string name = {};
  supervisor_actor supervisor = {};  ///< receives the viewer's requests

  friend bool operator==(const spawn_viewer&, const spawn_viewer&) = default;
};

/// A process that hosts ranks, with the actors that serve them.
struct hosting_process {
  node_actor node = {};
  loader_actor loader = {};
  keeper_actor keeper = {};           ///< keeper of their states in another process, if any
  runtime::state_source source = {};  ///< source of their initial states
  keeper_actor holder = {};           ///< keeper of that state, if the source is a keeper

  friend bool operator==(const hosting_process&, const hosting_process&) = default;
};

struct spawn_replica {
  runtime::generation_id generation = {};
  job_description job = {};
  int replica = 0;
  std::vector<hosting_process> processes = {};  ///< processes that host ranks, by number
  supervisor_actor supervisor = {};
  checkpointer_actor checkpointer = {};

  friend bool operator==(const spawn_replica&, const spawn_replica&) = default;
};

struct spawn_stage {
  runtime::generation_id generation = {};
  job_description job = {};
  runtime::state_source source = {};  ///< source of its worker's initial state
  int rank = 0;                       ///< of the job
  std::string place = {};             ///< its position on the mesh: see seats::place

  friend bool operator==(const spawn_stage&, const spawn_stage&) = default;
};

struct loader_spawned {
  loader_actor loader = {};

  friend bool operator==(const loader_spawned&, const loader_spawned&) = default;
};
struct keeper_spawned {
  keeper_actor keeper = {};

  friend bool operator==(const keeper_spawned&, const keeper_spawned&) = default;
};
struct checkpointer_spawned {
  checkpointer_actor checkpointer = {};

  friend bool operator==(const checkpointer_spawned&, const checkpointer_spawned&) = default;
};
struct shard_writer_spawned {
  shard_writer_actor writer = {};

  friend bool operator==(const shard_writer_spawned&, const shard_writer_spawned&) = default;
};
struct monitor_spawned {
  monitor_actor monitor = {};

  friend bool operator==(const monitor_spawned&, const monitor_spawned&) = default;
};
struct viewer_spawned {
  viewer_actor viewer = {};

  friend bool operator==(const viewer_spawned&, const viewer_spawned&) = default;
};
struct replica_spawned {
  replica_actor replica = {};

  friend bool operator==(const replica_spawned&, const replica_spawned&) = default;
};
struct stage_spawned {
  stage_actor stage = {};

  friend bool operator==(const stage_spawned&, const stage_spawned&) = default;
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

  friend bool operator==(const meet&, const meet&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, job_description& x) {
  return f(caf::meta::type_name("job_description"),
           x.settings,
           x.identity,
           x.iteration,
           x.consumed,
           x.start,
           x.with_moments,
           x.save,
           x.skipped,
           x.scale,
           x.validates,
           x.tests,
           x.matrix_rate,
           x.viewers);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, spawn_loader& x) {
  return f(caf::meta::type_name("spawn_loader"), x.generation, x.job);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, spawn_keeper& x) {
  return f(caf::meta::type_name("spawn_keeper"), x.generation, x.job, x.process, x.supervisor);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, hosting_process& x) {
  return f(caf::meta::type_name("hosting_process"), x.node, x.loader, x.keeper, x.source, x.holder);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, keeper_spawned& x) {
  return f(caf::meta::type_name("keeper_spawned"), x.keeper);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, spawn_checkpointer& x) {
  return f(caf::meta::type_name("spawn_checkpointer"), x.generation, x.job, x.supervisor);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, spawn_shard_writer& x) {
  return f(
      caf::meta::type_name("spawn_shard_writer"), x.generation, x.job, x.process, x.has_folder);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, shard_writer_spawned& x) {
  return f(caf::meta::type_name("shard_writer_spawned"), x.writer);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, spawn_monitor& x) {
  return f(caf::meta::type_name("spawn_monitor"), x.generation, x.job);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, spawn_viewer& x) {
  return f(caf::meta::type_name("spawn_viewer"), x.generation, x.job, x.name, x.supervisor);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, spawn_replica& x) {
  return f(caf::meta::type_name("spawn_replica"),
           x.generation,
           x.job,
           x.replica,
           x.processes,
           x.supervisor,
           x.checkpointer);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, spawn_stage& x) {
  return f(caf::meta::type_name("spawn_stage"), x.generation, x.job, x.source, x.rank, x.place);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, loader_spawned& x) {
  return f(caf::meta::type_name("loader_spawned"), x.loader);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, checkpointer_spawned& x) {
  return f(caf::meta::type_name("checkpointer_spawned"), x.checkpointer);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, monitor_spawned& x) {
  return f(caf::meta::type_name("monitor_spawned"), x.monitor);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, viewer_spawned& x) {
  return f(caf::meta::type_name("viewer_spawned"), x.viewer);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, replica_spawned& x) {
  return f(caf::meta::type_name("replica_spawned"), x.replica);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, stage_spawned& x) {
  return f(caf::meta::type_name("stage_spawned"), x.stage);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, meet& x) {
  return f(caf::meta::type_name("meet"),
           x.generation,
           x.replica,
           x.pipeline,
           x.followers,
           x.loader,
           x.checkpointer,
           x.keeper,
           x.holder);
}

}  // namespace troupe::messages

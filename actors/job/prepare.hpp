// Prepares a resolved job: its description, which is sent to processes, and this process's context.

#pragma once

#include "actors/host/context.hpp"
#include "actors/process/data_planes.hpp"
#include "messages/control/spawn.hpp"
#include "runtime/process/run_folder.hpp"

#include <memory>
#include <string>

namespace troupe::actors {

struct prepared_job {
  messages::job_description description;
  std::shared_ptr<node_context> node = std::make_shared<node_context>();

  /// Lives as long as the node's context.
  const opened_job& opened() const { return *node->jobs->open(description); }
};

/// The description of a job that starts at iteration 0. Registers the job's functions with the
/// node. Throws input_error as pipeline_of does.
messages::job_description describe(const runtime::training_job& job, node_context& node);

/// The size of the data set in words: "1200 training samples of 64 tokens: 0.42 epochs of ...".
/// Throws input_error and io_error.
std::string describe_data(const runtime::training_job& job);

/// Opens data sets, finds and verifies the checkpoint to start from, and checks the plan of every
/// step, before any actor is spawned. `folder`: the run's folder; continues an earlier run there if
/// possible (cold_start.hpp). Throws input_error and io_error, and `cancelled` soon after `stop`.
std::shared_ptr<prepared_job> prepare(runtime::training_job job,
                                      const runtime::cancel_token& stop = {},
                                      const runtime::held_run_folder* folder = nullptr);

/// Prepares a process that hosts ranks of a job which another process prepared. Throws io_error;
/// throws input_error, also when this process would compute different bits than the run.
std::shared_ptr<node_context> prepare_process(const messages::job_description& told,
                                              const messages::process_name& who,
                                              const data_plane_settings& network,
                                              const runtime::registered_functions& functions = {});

/// The transport between the workers of one process. `suspicion`: failure detector's timeout in
/// seconds; a handshake has half of it. Throws io_error when UCX is missing.
std::shared_ptr<runtime::transport> make_transport(runtime::transports by, double suspicion);

/// Adds the message path, with the checks that the job asks for.
void add_message_path(node_context& to, const runtime::training_job& job);

/// Sets the source for a rank that has lost its kept states: checkpoints of this run.
void add_saved_states(node_context& to, const messages::job_description& told);

/// Sets the folder for local states of this process's keeper, if the job has one, and looks at what
/// is there.
void add_local_states(node_context& to,
                      const runtime::training_job& job,
                      const messages::job_description& told);

}  // namespace troupe::actors

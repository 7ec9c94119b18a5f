// From a resolved job to what starts it: its description, which travels, and what its process has.

#pragma once

#include "actors/node/context.hpp"
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

/// As a process would be told it that starts at iteration 0; its functions are known to the node
/// from now on. Throws input_error as pipeline_of does.
messages::job_description describe(const runtime::training_job& job, node_context& node);

/// The size of the data set, in words: "1200 training samples of 64 tokens: 0.42 epochs of ...".
/// Throws input_error and io_error.
std::string describe_data(const runtime::training_job& job);

/// Opens data sets, finds and verifies the checkpoint to go on from, checks the plan of every step.
/// Throws input_error and io_error, before any actor is spawned, and `cancelled` soon after `stop`
/// is. `folder`: of the run; what one before has left there is taken up where it may be
/// (cold_start.hpp).
std::shared_ptr<prepared_job> prepare(runtime::training_job job,
                                      const runtime::cancel_token& stop = {},
                                      const runtime::held_run_folder* folder = nullptr);

/// What a process that hosts ranks of a job which another one has prepared needs. Throws
/// input_error, when its bits would be others than the run's, too, and io_error.
std::shared_ptr<node_context> prepare_process(const messages::job_description& told,
                                              const messages::process_name& who,
                                              const data_plane_settings& network,
                                              const runtime::registered_functions& functions = {});

/// How the tensors of one process's workers are handed on. `suspicion`: seconds; who calls its wire
/// has half of them to show who he is. Throws io_error: there is no UCX.
std::shared_ptr<runtime::transport> make_transport(runtime::transports by, double suspicion);

/// Faults, delays and checks of messages, as the job asks for them.
void add_message_path(node_context& to, const runtime::training_job& job);

/// What a rank is filled from when what its process kept of it is lost: checkpoints of this run.
void add_saved_states(node_context& to, const messages::job_description& told);

/// Where a keeper of this process writes what it keeps, if the job says so; what is there is looked
/// at.
void add_local_states(node_context& to,
                      const runtime::training_job& job,
                      const messages::job_description& told);

}  // namespace troupe::actors

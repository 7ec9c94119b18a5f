// The successor of a supervisor's process: it goes on from what that has left in the run's folder
// (docs/protocol/succession.md).
//
//   SUCCESSION-3  Each step stands once in the logs, ascending, whoever wrote them.

#pragma once

#include "actors/job/prepare.hpp"
#include "runtime/process/run_folder.hpp"

#include <filesystem>
#include <memory>

namespace troupe::actors {

/// The job as the run's processes were told it, and its ledger, which is written on. Logs are cut
/// where all of them have the same, and what the ledger has told since is written there again.
/// Throws input_error: the folder lacks something, or it is damaged; io_error.
std::shared_ptr<prepared_job> prepare_to_go_on(const runtime::held_run_folder& folder);

/// The ledger there is taken up and written on, and so are the logs: what they have of later
/// iterations than the ledger is cut off, and what the ledger has told since is to be written
/// there. Throws as step_ledger::go_on_in, and io_error.
void go_on_writing(node_context& node,
                   const runtime::watch_settings& logs,
                   const messages::job_description& told,
                   const std::filesystem::path& ledger);

}  // namespace troupe::actors

// Prepares the successor of a supervisor process: it continues from what that process left in the
// run's folder (docs/protocol/succession.md).
//
//   SUCCESSION-3  Each step appears once in the logs, in ascending order, whichever process wrote
//                 it.

#pragma once

#include "actors/job/prepare.hpp"
#include "runtime/process/run_folder.hpp"

#include <filesystem>
#include <memory>

namespace troupe::actors {

/// Loads the job as the run's processes know it, and continues its ledger. Logs are cut at the last
/// iteration that all have; later facts of the ledger are written to them again. Throws input_error
/// when a file is missing or damaged, and io_error.
std::shared_ptr<prepared_job> prepare_to_go_on(const runtime::held_run_folder& folder);

/// Continues the ledger and the logs. Cuts off log entries of iterations beyond the ledger; facts
/// that the ledger has beyond the logs are to be written again. Throws as step_ledger::go_on_in,
/// and io_error.
void go_on_writing(node_context& node,
                   const runtime::watch_settings& logs,
                   const messages::job_description& told,
                   const std::filesystem::path& ledger);

}  // namespace troupe::actors

// The last state of a run that has ended or died, by its folder and its ledger.

#pragma once

#include "runtime/process/run_control.hpp"

#include <string>
#include <vector>

namespace troupe::command {

/// A page, whose last line says how the run ended. A damaged ledger is a line of it.
std::string ended_run_page(const runtime::run_folder& folder, const runtime::run_status& x);

/// As `troupe monitor --json --once` prints a live run; without steps.
std::string ended_run_json(const runtime::run_folder& folder, const runtime::run_status& x);

/// The run and its last records, each a JSON object without a line end.
std::vector<std::string> ended_run_lines(const runtime::run_folder& folder,
                                         const runtime::run_status& x);

}  // namespace troupe::command

// The last state of a run that has ended or died, read from its folder and its ledger.

#pragma once

#include "runtime/process/run_control.hpp"

#include <string>
#include <vector>

namespace troupe::command {

/// A text page. Its last line says how the run ended. It also reports a damaged ledger.
std::string ended_run_page(const runtime::run_folder& folder, const runtime::run_status& x);

/// The output of `troupe monitor --json --once`. The records are the last step, the last save and
/// the end.
std::string ended_run_json(const runtime::run_folder& folder, const runtime::run_status& x);

/// The run and the same records, each a JSON object without a line end.
std::vector<std::string> ended_run_lines(const runtime::run_folder& folder,
                                         const runtime::run_status& x);

}  // namespace troupe::command

// The front of a run of several processes: the command that was typed. It starts the process that
// hosts the supervisor, shows its output and passes signals on. The run does not need it
// (docs/protocol/front.md).

#pragma once

#include "actors/command/run_training.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::command {

/// Runs run_training in a process of its own and ends as that process ends: returns its exit code,
/// or throws the error that it reported. The first signal asks the run to end in order, the second
/// ends it at once. If the process is lost and has no successor, the run ends with exit code 3.
int show_run(const runtime::training_job& job, const run_request& request);

/// The commands that start that process: the first one of a run, and its successors, which find
/// their order in the folder.
std::vector<std::string> supervisor_command(const std::filesystem::path& run, bool temporary);
std::vector<std::string> successor_command(const std::filesystem::path& run,
                                           bool temporary,
                                           std::uint32_t incarnation);

}  // namespace troupe::command

// The front of a run of several processes: the command that was typed. It starts the process that
// hosts the supervisor, shows what that tells, and passes signals on; the run needs nothing of it
// (docs/protocol/front.md).

#pragma once

#include "actors/command/run_training.hpp"
#include "runtime/process/supervisor_process.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::command {

/// What run_training does, in a process of its own. Ends when that has ended, as it ended: by its
/// exit code, or throwing what it complained of. The first signal asks the run to end in order, the
/// second ends it at once. When the process is lost the run is ended with exit code 3.
int show_run(const runtime::training_job& job, const run_request& request);

/// What that process is to do, as text.
struct supervisor_order {
  std::string job;  ///< runtime/trainer/job_json.hpp
  std::string configuration;
  std::vector<std::string> command;
  runtime::front_terminal terminal;
  runtime::process_id front = {};  ///< who shows the run; gone: nobody
  run_hosts hosts = {};
  bool moved = false;  ///< the run was begun on another host, which is gone
};
std::string text_of(const supervisor_order& x);

/// What starts that process, as which one of the run; a later one finds its order in the folder.
std::vector<std::string> supervisor_command(const std::filesystem::path& run, bool temporary);
std::vector<std::string> successor_command(const std::filesystem::path& run,
                                           bool temporary,
                                           std::uint32_t incarnation);
/// Throws input_error.
supervisor_order read_supervisor_order(const std::string& text);

}  // namespace troupe::command

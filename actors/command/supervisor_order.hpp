// The order of a run's front for the process that hosts the supervisor, sent as text.

#pragma once

#include "actors/command/run_training.hpp"
#include "runtime/process/supervisor_process.hpp"

#include <string>
#include <vector>

namespace troupe::command {

struct supervisor_order {
  std::string job;  ///< runtime/job/job_json.hpp
  std::string configuration;
  std::vector<std::string> command;
  runtime::front_terminal terminal;
  runtime::process_id front = {};  ///< the process that shows the run; it may be gone
  run_hosts hosts = {};
  bool moved = false;  ///< the run began on another host, which is lost
};
std::string text_of(const supervisor_order& x);
/// Throws input_error.
supervisor_order read_supervisor_order(const std::string& text);

}  // namespace troupe::command

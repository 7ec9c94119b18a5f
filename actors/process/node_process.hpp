// A process that hosts ranks: from its start by a host agent to its end.
//
//   SUCCESSION-1  The death of the supervisor's process does not end it, where another one takes
//                 over.

#pragma once

#include "messages/control/rendezvous.hpp"
#include "runtime/trainer/job_json.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace troupe::actors {

struct node_process_settings {
  std::filesystem::path run;        ///< the run's folder
  messages::process_name who = {};  ///< what it is to be
  std::string address;              ///< of the rendezvous: numeric, and its port
  std::uint16_t port = 0;
  std::string listen = "127.0.0.1";  ///< numeric, of this machine: where others reach it
  double suspicion = 10;             ///< seconds, of the run
  bool insecure = false;             ///< control_plane.hpp; then the run's secret comes by it, too
  /// What jobs may name that no text can say.
  runtime::registered_functions functions = {};
};

/// Takes part in a run until its job is over, or nobody has been its supervisor for ten times the
/// suspicion: who takes that place is found in the run's folder, and joined. Returns the exit code:
/// 0 when it was told to end, 3 when it failed, which the log and the rendezvous have been told.
/// Throws input_error and io_error when nobody lets it take part.
int run_node(const node_process_settings& settings);

}  // namespace troupe::actors

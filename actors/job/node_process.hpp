// A process that hosts ranks, from its start by a host agent to its end.
//
//   SUCCESSION-1  The process survives the death of the supervisor process when a successor takes
//                 over.

#pragma once

#include "messages/control/rendezvous.hpp"
#include "runtime/job/job_json.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace troupe::actors {

struct node_process_settings {
  std::filesystem::path run;        ///< the run's folder
  messages::process_name who = {};  ///< its place and incarnation
  std::string address;              ///< of the rendezvous, numeric; so is the port
  std::uint16_t port = 0;
  std::string listen = "127.0.0.1";  ///< numeric address at which others reach this machine
  double suspicion = 10;             ///< failure detector's timeout of the run in seconds
  bool insecure = false;  ///< see control_plane.hpp; the run's secret is then sent over it, too
  /// Functions that a job refers to by name.
  runtime::registered_functions functions = {};
};

/// Takes part in a run until its job is over, or until there was no supervisor for ten times the
/// failure detector's timeout. A successor of the supervisor is found through the run's folder and
/// joined. Returns the exit code: 0 when told to end, 3 on a failure that was logged and sent to
/// the rendezvous. Throws input_error and io_error when it is not admitted.
int run_node(const node_process_settings& settings);

}  // namespace troupe::actors

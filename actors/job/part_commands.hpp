// The command lines by which a run starts its own program again as one of its processes: a host
// agent, or a node that hosts ranks. The command lines are not meant for users and contain no
// secrets.

#pragma once

#include "actors/process/launch_settings.hpp"
#include "runtime/job/job_json.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::actors {

struct part_settings {
  std::filesystem::path run;  ///< the run's folder, held by the starting process
  double suspicion = 10;      ///< failure detector's timeout of the run in seconds
  /// An agent without an owner ends after this many timeouts.
  double patience = 10;
  bool insecure = false;  ///< see control_plane.hpp
};

/// The commands for processes of that run on this host. Fills in run, agent, node, address and
/// insecure. `address`: numeric address at which others reach this host.
launch_settings launch_of_parts(const part_settings& how, const std::string& address = "127.0.0.1");

/// Whether a program's arguments are those of a part.
bool is_part(const std::vector<std::string>& words);

/// Runs the part to its end and returns the exit code. Errors go to the log, which the starting
/// process has redirected to a file. Call it while this process has one thread. `functions`: what
/// jobs may refer to by name.
int play_part(const std::vector<std::string>& words,
              const runtime::registered_functions& functions = {});

}  // namespace troupe::actors

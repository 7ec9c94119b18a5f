// How a run starts the program that it is of once more, as one of its processes: a host agent, or a
// node that hosts ranks. By words that no user types, with nothing secret among them.

#pragma once

#include "actors/process/launch_settings.hpp"
#include "runtime/trainer/job_json.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::actors {

struct part_settings {
  std::filesystem::path run;  ///< the folder, held by who starts them
  double suspicion = 10;      ///< seconds, of the run
  /// So many suspicions after who started it is gone an agent ends everybody and itself.
  double patience = 10;
  bool insecure = false;  ///< control_plane.hpp
  /// Nodes live on when their agent dies, and another one adopts them: of runs with recovery.
  bool outlived = false;
};

/// How processes of that run are started on this host, by this program: run, agent, node, address
/// and insecure are filled in. `address`: numeric, of this host, where others reach it.
launch_settings launch_of_parts(const part_settings& how, const std::string& address = "127.0.0.1");

/// Whether the words that a program was given, without its name, are those of a part.
bool is_part(const std::vector<std::string>& words);

/// Is that part, to its end, and returns the exit code. What goes wrong is in the log, which who
/// started it has in a file. Call it while this process has one thread. `functions`: what jobs may
/// name.
int play_part(const std::vector<std::string>& words,
              const runtime::registered_functions& functions = {});

}  // namespace troupe::actors

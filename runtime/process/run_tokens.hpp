// Tokens of a run's hub: files in the run's folder, mode 0600 in a folder of mode 0700. A viewer
// needs the read token, a command the control token. They live from the start of the run to its
// end, also under a successor of the supervisor's process.

#pragma once

#include "runtime/process/run_folder.hpp"

#include <string>

namespace troupe::runtime {

struct run_tokens {
  std::string read, control;  ///< 32 hexadecimal digits each
};

/// Reads the tokens of the run, and creates those that are missing or damaged. Throws io_error.
run_tokens make_run_tokens(const held_run_folder& of);

}  // namespace troupe::runtime

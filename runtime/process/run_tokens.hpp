// Access tokens of a run's hub. A viewer needs the read token, a command needs the control token.
//
// The tokens are files of mode 0600 in the run's folder, which has mode 0700. They are valid from
// the start of the run to its end. A restarted supervisor process keeps them.

#pragma once

#include "runtime/process/run_folder.hpp"

#include <string>

namespace troupe::runtime {

struct run_tokens {
  std::string read, control;  ///< 32 hexadecimal digits each
};

/// Reads the tokens of the run. Creates a token that is missing or damaged. Throws io_error.
run_tokens make_run_tokens(const held_run_folder& of);

}  // namespace troupe::runtime

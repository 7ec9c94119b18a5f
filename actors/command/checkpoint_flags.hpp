// What is saved, what is loaded, and what of it is taken along.

#pragma once

#include "actors/command/command_line.hpp"
#include "runtime/trainer/job.hpp"

namespace troupe::command {

/// Declares the group "Checkpoints"; what is parsed goes to `to`, which outlives `line`.
void declare(command_line& line, runtime::checkpoint_settings& to);

}  // namespace troupe::command

// Flags of Megatron-LM that are not ours: accepted where they decide nothing, refused where they
// would decide what this build cannot do. One table of each; `--help-megatron` prints them.

#pragma once

#include "actors/command/flags.hpp"

#include <string>

namespace troupe::command {

/// Declares both tables, and the flags that mean something in one case only.
void declare_table(command_line& line, training_flags& to);

/// Both tables as a help page.
std::string megatron_help();

}  // namespace troupe::command

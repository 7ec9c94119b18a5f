// Flags of Megatron-LM that are not ours: accepted where they decide nothing, refused where they
// would decide what this build cannot do. One table (megatron/table.hpp) of these and of those that
// we share; `--help-megatron` prints it, docs/guides/from_megatron.md has a copy.

#pragma once

#include "actors/command/flags.hpp"

#include <string>

namespace troupe::command {

/// Declares what is accepted and refused, second spellings, and the flags that mean something in
/// one case only.
void declare_table(command_line& line, training_flags& to);

/// The table as a help page.
std::string megatron_help();

/// The same as Markdown: a heading and a table for each subject.
std::string megatron_markdown();

}  // namespace troupe::command

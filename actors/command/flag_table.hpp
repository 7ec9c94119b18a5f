// Flags of Megatron-LM that Troupe does not have. Flags without an effect here are accepted; flags
// that ask for a missing feature are refused. `--help-megatron` prints a table of these
// (megatron/table.hpp) and of the shared flags; docs/guides/from_megatron.md has a copy.

#pragma once

#include "actors/command/flags.hpp"

#include <string>

namespace troupe::command {

/// Declares the accepted and refused flags, second spellings, and the flags that take one value
/// only.
void declare_table(command_line& line, training_flags& to);

/// The table of a family as a help page.
std::string megatron_help(const runtime::model_family& family);

/// The same as Markdown: a heading and a table for each section.
std::string megatron_markdown(const runtime::model_family& family);

}  // namespace troupe::command

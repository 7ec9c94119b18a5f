// Flag names of nanoGPT, torchtitan, Hugging Face and others, each with Troupe's flag for it.

#pragma once

#include "actors/command/command_line.hpp"

#include <span>

namespace troupe::command {

struct other_name {
  const char* names;   ///< without dashes in front, separated by spaces; - and _ are the same
  const char* answer;  ///< what to do instead
};

std::span<const other_name> other_names_of_training();
std::span<const other_name> other_names_of_generating();
std::span<const other_name> other_names_of_evaluating();
/// For `troupe preprocess` and `troupe conversations`.
std::span<const other_name> other_names_of_preparing();

/// Makes `line` refuse these names with their answers.
void declare_other_names(command_line& line, std::span<const other_name> rows);

}  // namespace troupe::command

// Completion of commands, flags, file names and words of a choice, for three shells. Each script
// is made from the description of the commands, and does not run the program.

#pragma once

#include "actors/command/command_description.hpp"

#include <string>

namespace troupe::command {

std::string bash_completion(const command_description& program);  // completion_bash.cpp
std::string zsh_completion(const command_description& program);   // completion_zsh.cpp
std::string fish_completion(const command_description& program);  // completion_fish.cpp

/// In single quotes, for any of the three.
std::string shell_quoted(const std::string& text);

/// Up to the first full stop that ends a sentence, for a list of one line a flag.
std::string first_sentence(const std::string& help);

}  // namespace troupe::command

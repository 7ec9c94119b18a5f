// Completion scripts for three shells: commands, flags, file names and choices. Each script is
// generated from the description of the commands and does not run the program.

#pragma once

#include "actors/command/command_description.hpp"

#include <string>

namespace troupe::command {

std::string bash_completion(const command_description& program);  // completion_bash.cpp
std::string zsh_completion(const command_description& program);   // completion_zsh.cpp
std::string fish_completion(const command_description& program);  // completion_fish.cpp

/// Quotes the text with single quotes, valid in all three shells.
std::string shell_quoted(const std::string& text);

/// The first sentence of a help text, without its full stop.
std::string first_sentence(const std::string& help);

}  // namespace troupe::command

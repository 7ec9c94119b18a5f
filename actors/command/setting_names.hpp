// The library speaks of settings, the program of flags: what stands as `layout.tensor` in an error
// or a line of the log is --tensor-model-parallel-size where a user reads it.

#pragma once

#include <map>
#include <string>
#include <string_view>

namespace troupe::command {

/// The flag of each setting that a command has, by the setting's name: from what the commands
/// declare. Any thread.
const std::map<std::string, std::string, std::less<>>& flags_of_settings();

/// `text` with the flag in place of each `setting` in backticks; other words in backticks stay.
std::string with_flags(std::string_view text);

}  // namespace troupe::command

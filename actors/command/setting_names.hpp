// Replaces names of settings by flags: errors and log lines of the library name `layout.tensor`,
// and the user reads --tensor-model-parallel-size.

#pragma once

#include <map>
#include <string>
#include <string_view>

namespace troupe::command {

/// The flag of each setting, by the setting's name, from the declarations of all commands. Any
/// thread.
const std::map<std::string, std::string, std::less<>>& flags_of_settings();

/// `text` with the flag in place of each `setting` in backticks; other words in backticks stay.
std::string with_flags(std::string_view text);

}  // namespace troupe::command

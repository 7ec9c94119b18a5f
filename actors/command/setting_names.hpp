// Replaces names of settings by flags: errors and log lines of the library name `layout.tensor`,
// and the user reads --tensor-model-parallel-size.
//
// SETTING-5: a setting has one flag in all families: a message does not know its command.

#pragma once

#include "actors/command/command_description.hpp"

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace troupe::command {

/// Flags by the names of their settings.
using setting_names = std::map<std::string, std::string, std::less<>>;

/// Collected from the declarations of a program's commands. Breaks SETTING-5 if two families have
/// different flags for one setting.
setting_names flags_in(const command_description& program);

/// Those of this program. Any thread.
const setting_names& flags_of_settings();

/// `text` with the flag in place of each `setting` in backticks; other words in backticks stay.
std::string with_flags(std::string_view text);

}  // namespace troupe::command

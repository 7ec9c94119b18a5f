// The flags of training's settings, declared from the rows of the job, the model's family,
// asked_settings.hpp, hosts and tokenizer. A new setting needs nothing here, unless its title of
// the help or its words are unlike those of its neighbours.
//
// SETTING-2: each flag of a row has its place in the help.
// SETTING-4: each flag of a row has a reader, and each reader of setting_flags.cpp has its flag.
// FAMILY-2: a setting that a model of the family needs has a flag.

#pragma once

#include "actors/command/flags.hpp"
#include "runtime/core/bound_setting.hpp"

#include <map>
#include <string_view>

namespace troupe::command {

/// By name, readers of settings whose words are not simply those of a member.
using own_readers = std::map<std::string_view, list_reader>;

void declare_setting(command_line& line, runtime::bound_setting x, const own_readers& own = {});

/// Declares the flags of all settings of training, in the order of the help.
void declare_settings(command_line& line, training_flags& to);

}  // namespace troupe::command

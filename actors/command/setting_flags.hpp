// The flags of training's settings, declared from the rows of the job and of asked_settings.hpp. A
// new setting needs nothing here, unless its title of the help or its words are unlike those of its
// neighbours.
//
// SETTING-2: each flag of a row has its place in the help.
// SETTING-4: each flag of a row has a reader, and each reader of setting_flags.cpp has its flag.
// FAMILY-2: a setting that a model of the family needs has a flag.

#pragma once

#include "actors/command/flags.hpp"

namespace troupe::command {

void declare_settings(command_line& line, training_flags& to);

}  // namespace troupe::command

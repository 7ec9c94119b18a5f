// The flags of training by subject: each function declares a title and what stands under it.

#pragma once

#include "actors/command/flags.hpp"

namespace troupe::command {

void declare_shape(command_line& line, training_flags& to);      // shape_flags.cpp
void declare_function(command_line& line, training_flags& to);   // shape_flags.cpp
void declare_rotary(command_line& line, training_flags& to);     // shape_flags.cpp
void declare_layout(command_line& line, training_flags& to);     // layout_flags.cpp
void declare_schedule(command_line& line, training_flags& to);   // layout_flags.cpp
void declare_stages(command_line& line, training_flags& to);     // layout_flags.cpp
void declare_reduction(command_line& line, training_flags& to);  // layout_flags.cpp
void declare_recompute(command_line& line, training_flags& to);  // layout_flags.cpp

}  // namespace troupe::command

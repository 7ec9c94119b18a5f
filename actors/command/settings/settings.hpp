// The settings of training by subject. Each function declares a title of the help and the rows
// under it. All rows together are the one table of settings (command_description.hpp), in the order
// of the calls by `declare` (flags.cpp).

#pragma once

#include "actors/command/flags.hpp"

namespace troupe::command::settings {

void declare_shape(command_line& line, training_flags& to);        // model.cpp
void declare_function(command_line& line, training_flags& to);     // layers.cpp
void declare_rotary(command_line& line, training_flags& to);       // rotary.cpp
void declare_data(command_line& line, training_flags& to);         // data.cpp
void declare_steps(command_line& line, training_flags& to);        // steps.cpp
void declare_optimizer(command_line& line, training_flags& to);    // optimizer.cpp
void declare_scaling(command_line& line, training_flags& to);      // optimizer.cpp
void declare_rate(command_line& line, training_flags& to);         // learning_rate.cpp
void declare_layout(command_line& line, training_flags& to);       // layout.cpp
void declare_stages(command_line& line, training_flags& to);       // schedule.cpp
void declare_schedule(command_line& line, training_flags& to);     // schedule.cpp
void declare_reduction(command_line& line, training_flags& to);    // reduction.cpp
void declare_recompute(command_line& line, training_flags& to);    // reduction.cpp
void declare_checkpoints(command_line& line, training_flags& to);  // checkpoints.cpp
void declare_watching(command_line& line, training_flags& to);     // watching.cpp
void declare_recovery(command_line& line, training_flags& to);     // recovery.cpp
void declare_device(command_line& line, training_flags& to);       // devices.cpp
void declare_testing(command_line& line, training_flags& to);      // devices.cpp
void declare_faults(command_line& line, training_flags& to);       // faults.cpp

}  // namespace troupe::command::settings

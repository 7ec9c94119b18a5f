// `troupe checkpoint export` and `troupe checkpoint import`.

#pragma once

#include "actors/command/command_line.hpp"

namespace troupe::command {

void add_export(command_line& to);
void add_import(command_line& to);

}  // namespace troupe::command

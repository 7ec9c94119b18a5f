// Standard input of the commands.

#pragma once

#include <string>

namespace troupe::command {

/// Reads standard input to its end. Throws io_error.
std::string read_standard_input();

}  // namespace troupe::command

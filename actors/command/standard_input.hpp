#pragma once

#include <string>

namespace troupe::command {

/// Everything that standard input has. Throws io_error.
std::string read_standard_input();

}  // namespace troupe::command

// What the linker knows of a kernel.

#pragma once

#include <string>

namespace troupe::emulator {

/// With its template arguments and parameters, for people; an address where nothing is known.
std::string kernel_name(const void* kernel);

}  // namespace troupe::emulator

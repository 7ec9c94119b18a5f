// The program's own way to a device, for tests: plug-ins are opened, and find the emulated one.

#pragma once

#include "tests/support/places.hpp"

#include <cstdlib>

namespace troupe::tests {

/// Before the first plug-in is opened. Four devices, unless the test says otherwise.
inline const bool plugins_are_emulated
    = ::setenv("TROUPE_PLUGINS", emulated_plugins_dir().c_str(), 1) == 0
      && ::setenv("TROUPE_EMULATED_DEVICES", "4", 0) == 0;

}  // namespace troupe::tests

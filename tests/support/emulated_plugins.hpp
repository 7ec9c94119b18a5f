// Makes tests reach the emulated device as the program does: through plug-ins.

#pragma once

#include "tests/support/places.hpp"

#include <cstdlib>

namespace troupe::tests {

/// Runs before the first plug-in is opened. Default: four devices.
inline const bool plugins_are_emulated
    = ::setenv("TROUPE_PLUGINS", emulated_plugins_dir().c_str(), 1) == 0
      && ::setenv("TROUPE_EMULATED_DEVICES", "4", 0) == 0;

}  // namespace troupe::tests

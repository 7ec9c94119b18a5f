// Compiled into the program and into every plug-in with the same definitions.

#include "kernels/backend/plugin.hpp"

namespace troupe::kernels {

const char* build_of_plugins() {
  return TROUPE_PLUGIN_BUILD;
}

}  // namespace troupe::kernels

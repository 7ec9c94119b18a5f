// A plug-in of this version and compiler, but compiled with other headers. TEXT: its build
// identity.

#include <cstdlib>

extern "C" {

const char* troupe_plugin_build() {
  return TEXT;
}

const char* troupe_plugin_library() {
  std::abort();
}
}

// A plug-in of this version and compiler, compiled with other headers than the program: TEXT.

#include <cstdlib>

extern "C" {

const char* troupe_plugin_build() {
  return TEXT;
}

const char* troupe_plugin_library() {
  std::abort();
}
}

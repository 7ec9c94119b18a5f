// A plug-in of another build: it says so, and nobody may ask it for more.

#include <cstdlib>

extern "C" {

const char* troupe_plugin_build() {
  return "0.0.0 of long ago";
}

const char* troupe_plugin_library() {
  std::abort();
}
}

// A plug-in of another build. Calls other than troupe_plugin_build() abort.

#include <cstdlib>

extern "C" {

const char* troupe_plugin_build() {
  return "0.0.0 of long ago";
}

const char* troupe_plugin_library() {
  std::abort();
}
}

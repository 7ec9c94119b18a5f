#include "tests/support/places.hpp"

namespace troupe::tests {

std::string source_dir() {
  return TROUPE_SOURCE_DIR;
}

std::string bin_dir() {
  return TROUPE_BIN_DIR;
}

std::string emulated_plugins_dir() {
  return TROUPE_BUILD_DIR "/emulated";
}

std::string test_plugins_dir() {
  return TROUPE_BUILD_DIR "/tests/plugins";
}

}  // namespace troupe::tests

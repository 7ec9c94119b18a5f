// tests/emulator/control.hpp for a real device. set_seed, set_delay and set_coarse have no effect;
// a test that plants faults is skipped.

#include "tests/emulator/control.hpp"
#include "tests/support/places.hpp"

#include <catch2/catch_test_macros.hpp>

#include <unistd.h>

namespace troupe::emulator {

void set_seed(std::uint64_t) {}

void set_delay(std::uint64_t) {}

void set_coarse(bool) {}

calls calls_so_far() {
  return {};
}

void plant_faults(const std::string& text) {
  if (!text.empty())
    SKIP("only the emulated device has planted faults");
}

bool host_can_read(const void* at) {
  int ends[2];
  if (::pipe(ends) != 0)
    return false;
  const bool readable = ::write(ends[1], at, 1) == 1;  // EFAULT otherwise
  ::close(ends[0]);
  ::close(ends[1]);
  return readable;
}

}  // namespace troupe::emulator

/// Empty: the plug-ins lie beside the program, which may be copied to another machine.
std::string troupe::tests::test_plugins_dir() {
  return "";
}

// The settings of tests/emulator/control.hpp where a real device is under test: it has an order and
// a pace of its own. A test that plants faults is skipped.

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
    SKIP("faults are planted in the emulated device only");
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

/// Beside the program, wherever that is carried.
std::string troupe::tests::test_plugins_dir() {
  return "";
}

#include "runtime/device/held_device.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <unistd.h>

using troupe::runtime::hold_device;

TEST_CASE("a device belongs to one holder of a run until it lets go", "[device]") {
  const auto run = "run of test " + std::to_string(::getpid());
  auto mine = hold_device(run, "first");
  CHECK(mine != nullptr);
  CHECK(hold_device(run, "first") == nullptr);
  CHECK(hold_device(run, "second") != nullptr);
  CHECK(hold_device("another " + run, "first") != nullptr);
  mine.reset();
  CHECK(hold_device(run, "first") != nullptr);
}

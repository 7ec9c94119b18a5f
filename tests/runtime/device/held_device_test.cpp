#include "runtime/device/held_device.hpp"

#include <catch2/catch_test_macros.hpp>

#include <set>
#include <string>
#include <unistd.h>
#include <vector>

using troupe::runtime::choose_devices;
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

TEST_CASE("processes of a host choose devices that are free, whatever their ranks", "[device]") {
  std::set<int> taken;
  const auto hold = [&](int device) { return taken.insert(device).second; };
  const std::vector all = {0, 1, 2, 3};
  CHECK(choose_devices(all, 1, 0, hold) == std::vector{0});
  CHECK(choose_devices(all, 1, 2, hold) == std::vector{2});
  CHECK(choose_devices(all, 2, 4, hold) == std::vector{1, 3});  // rank 4 of other hosts' ranks
  CHECK(choose_devices(all, 1, 3, hold).empty());
  CHECK(choose_devices(all, 9, 1, [](int) { return true; }) == std::vector{1, 2, 3, 0});
}

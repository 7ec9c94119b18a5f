#include "runtime/machine/gpu_meter.hpp"

#include "tests/support/places.hpp"

#include <catch2/catch_test_macros.hpp>

namespace troupe::tests {

TEST_CASE("a meter reads the devices that CUDA counts, by their PCI addresses") {
  const auto fake = bin_dir() + "/libfake_nvml.so";
  const runtime::gpu_meter meter({1, 0}, fake.c_str(), fake.c_str());
  const auto found = meter.read();
  REQUIRE(found.size() == 2);
  CHECK(found[0].device == 1);
  CHECK(found[0].name == "GPU B");
  CHECK(found[0].temperature_c == 58);
  CHECK(found[1].device == 0);
  CHECK(found[1].name == "GPU A");
  CHECK(found[1].power_w == 312.5);
  CHECK(found[1].clock_mhz == 1980);
  CHECK(found[1].utilisation == 0.87);
  CHECK(found[1].memory_bytes == 60'000'000'000);
  CHECK(found[1].memory_total_bytes == 80'000'000'000);
}

TEST_CASE("what a device does not tell is empty") {
  const auto fake = bin_dir() + "/libfake_nvml.so";
  const runtime::gpu_meter meter({1}, fake.c_str(), fake.c_str());
  REQUIRE(meter.read().size() == 1);
  CHECK_FALSE(meter.read()[0].power_w);
  CHECK_FALSE(meter.read()[0].utilisation);
}

TEST_CASE("devices that CUDA or NVML does not know are left out") {
  const auto fake = bin_dir() + "/libfake_nvml.so";
  CHECK(runtime::gpu_meter({2, 3}, fake.c_str(), fake.c_str()).read().empty());
}

TEST_CASE("a machine without NVML has no readings") {
  CHECK(runtime::gpu_meter({0}, "libnot-there.so", "libnot-there.so").read().empty());
}

}  // namespace troupe::tests

#include "runtime/machine/gpu_meter.hpp"

#include "tests/support/places.hpp"
#include "tests/support/soon.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <thread>

namespace troupe::tests {
namespace {

/// Waits for the first readings of the background thread.
std::vector<runtime::gpu_reading> first_of(const runtime::gpu_meter& meter) {
  REQUIRE(soon([&] { return !meter.read().empty(); }));
  return meter.read();
}

}  // namespace

TEST_CASE("a meter finds the CUDA devices by their PCI addresses") {
  const auto fake = bin_dir() + "/libfake_nvml.so";
  const runtime::gpu_meter meter({1, 0}, fake.c_str(), fake.c_str());
  const auto found = first_of(meter);
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

TEST_CASE("a value that a device does not report is empty") {
  const auto fake = bin_dir() + "/libfake_nvml.so";
  const runtime::gpu_meter meter({1}, fake.c_str(), fake.c_str());
  const auto found = first_of(meter);
  REQUIRE(found.size() == 1);
  CHECK_FALSE(found[0].power_w);
  CHECK_FALSE(found[0].utilisation);
}

TEST_CASE("devices that CUDA or NVML does not know are omitted") {
  const auto fake = bin_dir() + "/libfake_nvml.so";
  const runtime::gpu_meter meter({2, 3, 0}, fake.c_str(), fake.c_str());
  const auto found = first_of(meter);
  REQUIRE(found.size() == 1);
  CHECK(found[0].device == 0);
}

TEST_CASE("a machine without NVML has no readings") {
  const runtime::gpu_meter meter({0}, "libnot-there.so", "libnot-there.so");
  for (int i = 0; i < 50; ++i) {  // the background thread has time for several readings
    CHECK(meter.read().empty());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace troupe::tests

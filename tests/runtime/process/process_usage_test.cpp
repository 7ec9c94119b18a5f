#include "runtime/process/process_usage.hpp"

#include "runtime/file/file.hpp"
#include "runtime/process/package_energy.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

using namespace troupe::runtime;
using Catch::Approx;
using troupe::tests::scratch_folder;

namespace {

void write_counter(const std::filesystem::path& zone, const std::string& microjoules) {
  std::filesystem::create_directories(zone);
  write_text(zone / "energy_uj", microjoules + "\n");
  write_text(zone / "max_energy_range_uj", "10000000\n");
}

}  // namespace

TEST_CASE("energy is the sum of all packages since the start, also after an overflow", "[usage]") {
  const scratch_folder folder;
  write_counter(folder / "intel-rapl:0", "9000000");
  write_counter(folder / "intel-rapl:1", "1000000");
  write_counter(folder / "intel-rapl:0:0", "5000000");  // a part of the first
  write_counter(folder / "other", "7000000");
  package_energy energy(folder.path());
  CHECK(energy.joules() == 0);
  write_counter(folder / "intel-rapl:0", "9500000");
  write_counter(folder / "intel-rapl:1", "3000000");
  write_counter(folder / "intel-rapl:0:0", "9000000");
  CHECK(energy.joules().value() == Approx(2.5));
  write_counter(folder / "intel-rapl:0", "500000");  // 0.5 J to the overflow, 0.5 J after it
  CHECK(energy.joules().value() == Approx(3.5));
  write_text(folder / "intel-rapl:0/energy_uj", "nonsense");
  CHECK(energy.joules().value() == Approx(3.5));
}

TEST_CASE("a host without energy counters reports none", "[usage]") {
  const scratch_folder folder;
  CHECK_FALSE(package_energy(folder.path()).joules());
  CHECK_FALSE(package_energy(folder / "gone").joules());
}

TEST_CASE("a process reports its time and memory", "[usage]") {
  const auto before = double(std::clock()) / CLOCKS_PER_SEC;
  const auto first = usage_of_this_process();
  const auto after = double(std::clock()) / CLOCKS_PER_SEC;
  CHECK(first.up_s >= 0);
  CHECK(first.cpu_s > 0);
  CHECK(first.cpu_s >= before - 0.1);  // the kernel counts it in two ways
  CHECK(first.cpu_s <= after + 0.1);
  CHECK(first.resident_bytes > 0);
  CHECK(first.peak_resident_bytes >= first.resident_bytes);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(usage_of_this_process().up_s >= first.up_s + 0.02);
}

TEST_CASE("the peak of resident memory is never below the current one", "[usage]") {
  std::vector<std::string> held;
  for (int i = 0; i < 100; ++i) {
    held.emplace_back(std::size_t(1) << 20, 'x');
    const auto now = usage_of_this_process();
    REQUIRE(now.peak_resident_bytes >= now.resident_bytes);
  }
  CHECK(usage_of_this_process().peak_resident_bytes >= held.size() << 20);
}

#include "tests/support/device_ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using tests::device_array;

namespace {

/// Also of more arrays than a kernel's parameters hold, some of them without elements.
std::vector<std::vector<float>> arrays_of(std::size_t count) {
  std::vector<std::vector<float>> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(tests::normal<float>(i == 2 ? 20011 : i * 37 % 301, std::uint32_t(i)));
  return out;
}

}  // namespace

TEST_CASE("fingerprints on a device are those of the judge", "[kernels][cuda]") {
  const std::size_t count = GENERATE(0, 1, 3, 250), shift = GENERATE(0, 1);
  // One for all of an array; of several tiles; odd, and smaller than one.
  const std::int64_t grain = GENERATE(1 << 20, 8192, 61);
  const auto x = arrays_of(count);
  std::vector<device_array<float>> there;
  std::vector<std::vector<std::uint64_t>> keys;
  std::vector<device_array<std::uint64_t>> keys_there;
  std::vector<kernels::fingerprint<float>::piece> host, device;
  for (const auto& one : x) {
    there.emplace_back(one, shift);
    std::vector<std::uint64_t> of_one;
    for (std::int64_t g = 0; g < kernels::grains_in(std::int64_t(one.size()), grain); ++g)
      of_one.push_back(0x123456789abcdefu * (there.size() + 1000 * std::uint64_t(g)));
    keys_there.emplace_back(of_one);
    keys.push_back(std::move(of_one));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto n = std::int64_t(x[i].size());
    host.push_back({x[i].data(), n, keys[i].data()});
    device.push_back({there[i].data(), n, keys_there[i].data()});
  }
  std::vector<std::uint64_t> expected(2 * count, 5);
  kernels::reference::run(
      kernels::fingerprint<float>{expected.data(), host.data(), std::int64_t(count), grain});
  device_array<std::uint64_t> results(2 * count);
  const tests::emulated_seed order(int(count) + 2);
  tests::run_on_device(
      kernels::fingerprint<float>{results.data(), device.data(), std::int64_t(count), grain});
  CHECK(results.download() == expected);
}

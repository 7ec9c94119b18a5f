// Cases beyond the operation tester (op_tester_test.cpp): a norm over more blocks than a device
// adds at once, and norms with fingerprints.

#include "tests/support/device_ops.hpp"
#include "tests/support/written_fingerprints.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using tests::device_array;
using tests::normal;

TEST_CASE("a device adds the blocks of a long array in order", "[kernels][cuda]") {
  const std::int64_t n = 4096 * 2100 + 5;  // three chunks of blocks
  auto x = normal<float>(1000, 5);
  x.resize(std::size_t(n));
  for (std::int64_t i = 1000; i < n; i += 61)
    x[std::size_t(i)] = float(i % 1009) * 1e-3f;
  double expected = -1;
  kernels::reference::run(kernels::square_norm<float>{.result = &expected, .x = x.data(), .n = n});
  const device_array<float> from(x);
  device_array<double> result(1);
  tests::run_on_device(
      kernels::square_norm<float>{.result = result.data(), .x = from.data(), .n = n});
  CHECK(result.download().front() == expected);
}

// Sizes: empty, one element, odd, more than a block; also more arrays than one launch holds.
TEST_CASE("square norms on a device fingerprint their inputs", "[kernels][cuda]") {
  std::vector<std::int64_t> sizes = GENERATE(std::vector<std::int64_t>{0},
                                             std::vector<std::int64_t>{0, 1, 7, 4097, 20011},
                                             std::vector<std::int64_t>(130, 37));
  const std::int64_t grain = GENERATE(1, 61, 4099, 8192, 65536);
  const std::size_t shift = GENERATE(0, 1);
  CAPTURE(sizes.size(), grain, shift);
  tests::normed_arrays all(sizes, grain);
  std::vector<device_array<float>> there;
  for (const auto& x : all.x)
    there.emplace_back(x, shift);
  const device_array<std::uint64_t> keys(all.keys);
  device_array<double> norms(std::size_t(all.grains()));
  device_array<std::uint64_t> prints(2 * sizes.size());
  auto op = all.operation([&](std::size_t i) { return there[i].data(); }, keys.data());
  op.results = norms.data();
  op.fingerprints = prints.data();
  tests::run_on_device(op);
  CHECK(norms.download() == all.norms());
  CHECK(prints.download() == all.fingerprints());
}

// Beside the tester (op_tester_test.cpp): a norm of more blocks than a device adds at once.

#include "tests/support/device_ops.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using tests::device_array;
using tests::normal;

TEST_CASE("the blocks of a long array are added in their order on a device", "[kernels][cuda]") {
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

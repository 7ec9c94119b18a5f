#include "kernels/op/count.hpp"

#include "kernels/reference/reference.hpp"
#include "tests/support/device_ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using tests::device_array;

TEST_CASE("zeros of either sign are counted on a device, what is not a number is none",
          "[kernels][cuda]") {
  const std::int64_t n = GENERATE(0, 1, 3, 61, 4096, 4099, 30011);
  const std::size_t shift = GENERATE(0, 1);
  auto x = tests::normal<float>(std::size_t(n), 3);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % 7 == 0)
      x[i] = i % 2 == 0 ? 0.0f : -0.0f;
    if (i % 11 == 5)
      x[i] = std::numeric_limits<float>::quiet_NaN();
    if (i % 13 == 2)
      x[i] = 0x1p-149f;
  }
  std::int64_t expected = -1;
  kernels::reference::run(kernels::count_zeros<float>{.result = &expected, .x = x.data(), .n = n});
  const device_array<float> from(x, shift);
  device_array<std::int64_t> result(1);
  tests::run_on_device(
      kernels::count_zeros<float>{.result = result.data(), .x = from.data(), .n = n});
  CHECK(result.download().front() == expected);
}

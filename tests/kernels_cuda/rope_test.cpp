// Beside the tester (op_tester_test.cpp): more rows than a device has blocks.

#include "tests/support/device_ops.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using tests::error_of;
using tests::in_double;
using tests::on_device;
using tests::rope_memory;

// A block has one row's sines at a time here, and a device at most 2,112 blocks.
TEST_CASE("rotary embedding on a device turns more rows than blocks can have at once",
          "[kernels][cuda]") {
  rope_memory<float> m{.R = 3 * 2112, .G = 1, .heads = 1, .D = 512, .rotated = 512};
  auto exact = in_double(m);
  on_device(m, m.turn());
  kernels::reference::run(exact.turn());
  // The sine is right to 4e-9 and rounded; then two products and a sum.
  CHECK(error_of(m.x, exact.x) < 3e-7);
}

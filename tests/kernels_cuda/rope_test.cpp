// A case beyond the operation tester (op_tester_test.cpp): more rows than a device has blocks.

#include "tests/support/device_ops.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using tests::error_of;
using tests::in_double;
using tests::on_device;
using tests::rope_memory;

// Here a block holds the sines of one row at a time, and a launch has at most 2,112 blocks.
TEST_CASE("rotary embedding on a device handles more rows than blocks", "[kernels][cuda]") {
  rope_memory<float> m{.R = 3 * 2112, .G = 1, .heads = 1, .D = 512, .rotated = 512};
  auto exact = in_double(m);
  on_device(m, m.turn());
  kernels::reference::run(exact.turn());
  // The sine has an error of 4e-9 and is rounded; two products and a sum follow.
  CHECK(error_of(m.x, exact.x) < 3e-7);
}

// Beside the tester (op_tester.hpp): turning back undoes what was turned.

#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using tests::on_cpu;
using tests::relative_error;

TEST_CASE("rope on the cpu is undone by turning back", "[kernels][cpu]") {
  tests::rope_memory<float> a{.R = 7, .G = 2, .heads = 3, .D = 22, .rotated = 14};
  const auto before = a.x;
  on_cpu(a.turn());
  CHECK(relative_error(a.x, before) > 0.1);
  on_cpu(a.turn(true));
  CHECK(relative_error(a.x, before) < 5e-7);
}

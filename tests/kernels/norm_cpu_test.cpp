// Beside the tester (op_tester.hpp): rows whose mean is far from zero, statistics that nobody
// wants.

#include "kernels/reference/reference.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using tests::on_cpu;
using tests::relative_error;

TEST_CASE("norm on the cpu keeps a row whose mean is far from zero", "[kernels][cpu]") {
  tests::norm_memory<float> a{.R = 4, .C = 769};
  for (auto& value : a.x)
    value += 1000;
  auto b = a;
  kernels::reference::run(a.forward());
  on_cpu(b.forward());
  // The mean is known to 1e-4 of a standard deviation: a float at 1000, and the sum of 769 of them.
  CHECK(relative_error(b.y, a.y) < 2e-4);
  CHECK(relative_error(b.rstd, a.rstd) < 1e-5);
}

TEST_CASE("norm on the cpu leaves out the statistics that nobody wants", "[kernels][cpu]") {
  tests::norm_memory<float> a{.R = 3, .C = 19}, b = a;
  on_cpu(a.forward());
  auto op = b.forward();
  op.mean = nullptr;
  op.rstd = nullptr;
  on_cpu(op);
  CHECK(b.y == a.y);
}

TEST_CASE("norm on the cpu refuses a workspace that is too small", "[kernels][cpu]") {
  tests::norm_memory<float> a{.R = 3, .C = 19};
  CHECK_THROWS_AS(kernels::run(kernels::backend::cpu, a.backward_weight(), {}), std::logic_error);
}

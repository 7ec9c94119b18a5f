// Beside the tester (op_tester.hpp): the update itself, a thousandth of what it is added to; that
// what is rounded are the new parameters' own bits.

#include "kernels/reference/reference.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using tests::adamw_memory;
using tests::on_cpu;
using tests::relative_error;

TEST_CASE("adamw on the cpu agrees with the reference", "[kernels][cpu]") {
  const auto n = GENERATE(0, 1, 7, 64, 1031, 100003);
  const float weight_decay = GENERATE(0.0f, 0.1f);
  adamw_memory<float> a{.n = n, .weight_decay = weight_decay}, b = a;
  const auto before = a.x;
  kernels::reference::run(a.step());
  on_cpu(b.step(), 2);
  CHECK(relative_error(b.m, a.m) < 2e-7);
  CHECK(relative_error(b.v, a.v) < 2e-7);
  CHECK(relative_error(b.x, a.x) < 2e-7);

  // The update itself, a thousandth of x: half a unit in the last place of x, and a few of its own.
  std::vector<float> expected, change;
  for (std::size_t i = 0; i < before.size(); ++i) {
    expected.push_back(a.x[i] - before[i]);
    change.push_back(b.x[i] - before[i]);
  }
  CHECK(relative_error(change, expected) < 1e-3);
}

TEST_CASE("adamw on the cpu moves nothing when nothing pulls", "[kernels][cpu]") {
  adamw_memory<float> a{.n = 133, .weight_decay = 0};
  std::fill(a.m.begin(), a.m.end(), 0.0f);
  std::fill(a.v.begin(), a.v.end(), 0.0f);
  std::fill(a.dx.begin(), a.dx.end(), 0.0f);
  const auto before = a.x;
  on_cpu(a.step());
  CHECK(a.x == before);  // eps keeps 0 / 0 away
}

TEMPLATE_TEST_CASE("adamw on the cpu leaves its parameters rounded beside the exact ones",
                   "[kernels][cpu]",
                   kernels::bf16,
                   kernels::f16) {
  const auto n = GENERATE(1, 7, 64, 100003);
  adamw_memory<float, TestType> a{.n = n}, plain = a;
  a.rounded = tests::blank<TestType>(n);
  on_cpu(a.step(), 2);
  on_cpu(plain.step(), 2);
  CHECK(a.x == plain.x);
  std::vector<TestType> expected;
  for (const float x : a.x)
    expected.push_back(TestType(x));
  CHECK(a.rounded == expected);
}

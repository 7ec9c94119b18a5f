// Beside the tester (op_tester.hpp): that nothing moves where nothing pulls, and that what is
// rounded are the new parameters' own bits.

#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using tests::adamw_memory;
using tests::on_cpu;

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

// Beside the tester (op_tester.hpp): that nothing moves where nothing pulls, that what is rounded
// are the new parameters' own bits, and that fingerprints are those of what is left.

#include "tests/kernels/vector_targets.hpp"
#include "tests/support/fingerprinted.hpp"
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

TEST_CASE("adamw on the cpu takes the fingerprints of what it leaves", "[kernels][cpu]") {
  const std::int64_t grain = GENERATE(8, 61, 1500, 65536);
  const int threads = GENERATE(1, 2, 5);
  std::vector<adamw_memory<float>> some;
  // Nothing; one; pairs and half a pair; a block of the kernel's and one more; several grains.
  for (const std::int64_t n : {0, 1, 2, 7, 0, 1024, 1025, 70001})
    some.push_back({.n = n});
  auto plain = some;
  for (const auto target : tests::vector_targets()) {
    const tests::vector_target only(target);
    tests::fingerprinted all(some, grain);
    on_cpu(all.step(), threads);
    for (auto& one : plain)
      on_cpu(one.step(), threads);
    for (std::size_t i = 0; i < some.size(); ++i) {
      CHECK(some[i].x == plain[i].x);
      CHECK(some[i].m == plain[i].m);
      CHECK(some[i].v == plain[i].v);
    }
    CHECK(all.results == all.expected());
  }
}

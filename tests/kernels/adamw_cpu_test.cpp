// Cases beyond the operation tester (op_tester.hpp): zero gradients, the bits of the rounded
// parameters, out-of-place updates and fingerprints.

#include "tests/kernels/vector_targets.hpp"
#include "tests/support/fingerprinted.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cstring>

using namespace troupe;
using tests::adamw_memory;
using tests::on_cpu;

TEST_CASE("adamw on the cpu changes nothing if gradient, moments and decay are zero",
          "[kernels][cpu]") {
  adamw_memory<float> a{.n = 133, .weight_decay = 0};
  std::fill(a.m.begin(), a.m.end(), 0.0f);
  std::fill(a.v.begin(), a.v.end(), 0.0f);
  std::fill(a.dx.begin(), a.dx.end(), 0.0f);
  const auto before = a.x;
  on_cpu(a.step());
  CHECK(a.x == before);  // eps prevents 0 / 0
}

TEMPLATE_TEST_CASE("adamw on the cpu also writes its parameters rounded",
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

// A million elements and more bypass the caches. Also tests unaligned arrays and partial vectors.
TEST_CASE("out-of-place adamw on the cpu has the bits of in-place adamw and preserves its input",
          "[kernels][cpu]") {
  const std::int64_t n = GENERATE(7, 1025, 1100003);
  const bool fingerprints = GENERATE(false, true), f16 = GENERATE(false, true);
  const std::size_t shift = GENERATE(0, 3);
  CAPTURE(n, fingerprints, f16, shift);
  using memory = adamw_memory<float, kernels::bf16>;
  memory first{.n = n};
  first.rounded = tests::blank<kernels::bf16>(n);
  const auto old = first;
  for (const auto target : tests::vector_targets()) {
    const tests::vector_target only(target);
    std::vector<memory> in_place{old};
    tests::fingerprinted expected(in_place, 65536);
    std::vector<float> written[3];
    for (auto& one : written)
      one.assign(std::size_t(n) + shift, 0.0f);
    auto rounded = old.rounded;
    auto op = expected.step();
    op.rounded_to = f16 ? kernels::narrow_type::f16 : kernels::narrow_type::bf16;
    if (!fingerprints)
      op.fingerprints = nullptr;
    auto piece = op.pieces[0];
    on_cpu(op, 2);
    piece.from = {old.x.data(), old.m.data(), old.v.data()};
    piece.x = written[0].data() + shift;
    piece.m = written[1].data() + shift;
    piece.v = written[2].data() + shift;
    piece.rounded = rounded.data();
    std::vector<std::uint64_t> results(6, 1);
    auto beside = op;
    beside.pieces = &piece;
    if (fingerprints)
      beside.fingerprints = results.data();
    on_cpu(beside, 2);
    const std::vector<float>* const wanted[] = {&in_place[0].x, &in_place[0].m, &in_place[0].v};
    for (int a = 0; a < 3; ++a)
      CHECK(std::equal(wanted[a]->begin(), wanted[a]->end(), written[a].begin() + long(shift)));
    CHECK(std::memcmp(rounded.data(), in_place[0].rounded.data(), std::size_t(n) * 2) == 0);
    if (fingerprints)
      CHECK(results == expected.results);
    CHECK(old.x == first.x);
    CHECK(old.m == first.m);
    CHECK(old.v == first.v);
    CHECK(in_place[0].x != first.x);
  }
}

TEST_CASE("adamw on the cpu computes the fingerprints of its results", "[kernels][cpu]") {
  const std::int64_t grain = GENERATE(8, 61, 1500, 65536);
  const int threads = GENERATE(1, 2, 5);
  std::vector<adamw_memory<float>> some;
  // Empty; one; pairs and half a pair; a block of the kernel, and one more; several grains.
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

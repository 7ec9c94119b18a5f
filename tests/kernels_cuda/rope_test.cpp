#include "tests/support/device_ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using tests::error_of;
using tests::in_double;
using tests::on_device;
using tests::redrawn;
using tests::rope_memory;

namespace {

struct shape {
  std::int64_t R, G, heads, D, rotated;
};

// One pair; primes; the heads that models have, all of them turned or a part; more pairs than a
// block holds the sines of; no rows.
const auto shapes = {shape{1, 1, 1, 2, 2},
                     {0, 1, 1, 8, 8},
                     {3, 2, 3, 7, 6},
                     {37, 1, 2, 16, 8},
                     {13, 2, 3, 64, 64},
                     {5, 3, 5, 128, 128},
                     {11, 1, 3, 80, 32},
                     {2, 1, 2, 1056, 1040}};

// The sine is right to 4e-9 and rounded; then two products and a sum.
constexpr double rounding = 3e-7;

}  // namespace

TEMPLATE_TEST_CASE("rotary embedding on a device agrees with the judge, there and back",
                   "[kernels][cuda]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  const auto [R, G, heads, D, rotated] = GENERATE_REF(values(shapes));
  const bool interleaved = GENERATE(false, true), backward = GENERATE(false, true);
  const std::size_t shift = GENERATE(0, 1);
  auto m = redrawn(
      rope_memory<TestType>{
          .R = R, .G = G, .heads = heads, .D = D, .rotated = rotated, .interleaved = interleaved},
      int(D));
  m.frequency = rope_memory<TestType>::frequencies(rotated);
  auto exact = in_double(m);
  on_device(m, m.turn(backward), shift);
  kernels::reference::run(exact.turn(backward));
  CHECK(error_of(m.x, exact.x) < rounding);
}

// A block has one row's sines at a time here, and a device at most 2,112 blocks.
TEST_CASE("rotary embedding on a device turns more rows than blocks can have at once",
          "[kernels][cuda]") {
  rope_memory<float> m{.R = 3 * 2112, .G = 1, .heads = 1, .D = 512, .rotated = 512};
  auto exact = in_double(m);
  on_device(m, m.turn());
  kernels::reference::run(exact.turn());
  CHECK(error_of(m.x, exact.x) < rounding);
}

TEST_CASE("rotary embedding on a device knows its angle at far positions", "[kernels][cuda]") {
  rope_memory<float> m{.R = 6, .G = 1, .heads = 1, .D = 32, .rotated = 32};
  m.position = {0, 1, 99999, 1000003, 16777217, 2147483647};
  auto exact = in_double(m);
  on_device(m, m.turn());
  kernels::reference::run(exact.turn());
  CHECK(error_of(m.x, exact.x) < rounding);
}

TEST_CASE("rotary embedding on a device has the same bits wherever its heads lie",
          "[kernels][cuda]") {
  const bool interleaved = GENERATE(false, true);
  rope_memory<kernels::bf16> a{
      .R = 13, .G = 2, .heads = 3, .D = 64, .rotated = 64, .interleaved = interleaved},
      b = a;
  on_device(a, a.turn());
  const tests::emulated_seed other(6);
  on_device(b, b.turn(), 1);
  CHECK(a.x == b.x);
}

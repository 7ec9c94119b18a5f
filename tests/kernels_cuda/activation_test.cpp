#include "tests/support/device_ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

using namespace troupe;
using kernels::activation;
using tests::activation_memory;
using tests::error_of;
using tests::in_double;
using tests::on_device;
using tests::redrawn;

namespace {

struct shape {
  std::int64_t R, N;
};

// One element; primes; a pack and one more; whole packs in rows; more than one block.
const auto shapes = {shape{1, 1}, {3, 7}, {5, 61}, {1, 257}, {17, 64}, {3, 1040}, {67, 130}};

// A dozen roundings of 6e-8, the largest of them of the exponential's argument.
constexpr double rounding = 2e-6;

activation any_kind() {
  return GENERATE(from_range(kernels::every_activation));
}

}  // namespace

TEMPLATE_TEST_CASE("activations on a device agree with the judge",
                   "[kernels][cuda]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  const auto [R, N] = GENERATE_REF(values(shapes));
  const auto kind = any_kind();
  const std::size_t shift = GENERATE(0, 1);
  const int seed = int(R) + 1;
  auto m = redrawn(activation_memory<TestType>{.R = R, .N = N, .kind = kind}, seed);
  auto exact = in_double(m);
  on_device(m, m.forward(), shift);
  kernels::reference::run(exact.forward());
  CHECK(error_of(m.y, exact.y) < rounding);
  on_device(m, m.backward(), shift);
  kernels::reference::run(exact.backward());
  CHECK(error_of(m.dx, exact.dx) < rounding);
}

TEMPLATE_TEST_CASE("activations on a device have the same bits wherever their arrays begin",
                   "[kernels][cuda]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  const auto kind = any_kind();
  activation_memory<TestType> a{.R = 3, .N = 72, .kind = kind}, b = a;
  on_device(a, a.forward());
  on_device(a, a.backward());
  const tests::emulated_seed other(7);
  on_device(b, b.forward(), 3);
  on_device(b, b.backward(), 3);
  CHECK(a.y == b.y);
  CHECK(a.dx == b.dx);
}

TEMPLATE_TEST_CASE("the gradient of an activation on a device may overwrite its input",
                   "[kernels][cuda]",
                   float,
                   kernels::bf16) {
  const auto kind = any_kind();
  const std::int64_t N = GENERATE(61, 64);
  activation_memory<TestType> a{.R = 5, .N = N, .kind = kind}, b = a;
  on_device(a, a.backward());
  auto op = b.backward();
  op.dx = b.x.data();
  on_device(b, op);
  CHECK(b.x == a.dx);
}

TEST_CASE("activations on a device are finite for every large number and keep what is not a number",
          "[kernels][cuda]") {
  const auto kind = any_kind();
  activation_memory<float> m{.R = 1, .N = 8, .kind = kind};
  m.x = {-1e4f, -200, -90, -88, 88, 90, 200, 1e4f};
  m.x.resize(std::size_t(8 * kernels::fan_in(kind)), 1.0f);
  m.dy.assign(8, 1.0f);
  auto exact = in_double(m);
  on_device(m, m.forward());
  on_device(m, m.backward());
  kernels::reference::run(exact.forward());
  kernels::reference::run(exact.backward());
  CHECK(error_of(m.y, exact.y) < rounding);
  CHECK(error_of(m.dx, exact.dx) < rounding);
  m.x.assign(m.x.size(), std::numeric_limits<float>::quiet_NaN());
  on_device(m, m.forward());
  on_device(m, m.backward());
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(std::isnan(m.y[i]));
    CHECK(std::isnan(m.dx[i]));
  }
}

#include "kernels/reference/reference.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <limits>

using namespace troupe;
using kernels::activation;
using tests::on_cpu;
using tests::relative_error;

namespace {

// Each is a few operations after an exponential of 1e-7.
constexpr double rounding = 5e-7;

activation any_kind() {
  return GENERATE(
      activation::gelu_tanh, activation::gelu_erf, activation::swiglu, activation::squared_relu);
}

}  // namespace

TEST_CASE("activations on the cpu agree with the reference", "[kernels][cpu]") {
  const auto N = GENERATE(1, 7, 16, 61, 4099);
  const auto R = GENERATE(1, 3, 11);
  tests::activation_memory<float> a{.R = R, .N = N, .kind = any_kind()}, b = a;
  kernels::reference::run(a.forward());
  on_cpu(b.forward(), 2);
  CHECK(relative_error(b.y, a.y) < rounding);
  kernels::reference::run(a.backward());
  on_cpu(b.backward(), 2);
  CHECK(relative_error(b.dx, a.dx) < rounding);
}

TEST_CASE("activations on the cpu are right all along the axis", "[kernels][cpu]") {
  // Absolute, below 1, and relative above: the tail of a gelu is 1e-7 of nothing.
  tests::activation_memory<float> a{.R = 1, .N = 40001, .kind = any_kind()};
  for (std::size_t i = 0; i < a.x.size(); ++i)
    a.x[i] = float(i % 40001) / 1000 - 20;
  std::fill(a.dy.begin(), a.dy.end(), 1.0f);
  auto b = a;
  kernels::reference::run(a.forward());
  on_cpu(b.forward());
  kernels::reference::run(a.backward());
  on_cpu(b.backward());
  double worst = 0;
  for (std::size_t i = 0; i < a.y.size(); ++i)
    worst = std::max(worst, std::abs(double(b.y[i]) - a.y[i]) / std::max(1.0f, std::abs(a.y[i])));
  CHECK(worst < rounding);
  worst = 0;
  for (std::size_t i = 0; i < a.dx.size(); ++i)
    worst
        = std::max(worst, std::abs(double(b.dx[i]) - a.dx[i]) / std::max(1.0f, std::abs(a.dx[i])));
  CHECK(worst < rounding);
}

TEST_CASE("activations on the cpu pass on what is not a number", "[kernels][cpu]") {
  tests::activation_memory<float> a{.R = 1, .N = 5, .kind = any_kind()};
  a.x[2] = std::numeric_limits<float>::quiet_NaN();
  on_cpu(a.forward());
  on_cpu(a.backward());
  CHECK(std::isnan(a.y[2]));
  CHECK(std::isnan(a.dx[2]));
  CHECK_FALSE(std::isnan(a.y[1]));
}

TEST_CASE("the gradient of an activation may take the place of its input", "[kernels][cpu]") {
  tests::activation_memory<float> a{.R = 5, .N = 61, .kind = any_kind()}, b = a;
  on_cpu(a.backward());
  auto op = b.backward();
  op.dx = b.x.data();
  on_cpu(op);
  CHECK(b.x == a.dx);
}

TEST_CASE("activations on the cpu have the same bits whatever the number of threads",
          "[kernels][cpu]") {
  tests::activation_memory<float> one{.R = 61, .N = 1031, .kind = any_kind()}, three = one;
  on_cpu(one.forward(), 1);
  on_cpu(three.forward(), 3);
  CHECK(one.y == three.y);
  on_cpu(one.backward(), 1);
  on_cpu(three.backward(), 3);
  CHECK(one.dx == three.dx);
}

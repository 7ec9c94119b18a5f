// Cases beyond the operation tester (op_tester.hpp): activations along the whole axis, and NaN.

#include "kernels/reference/reference.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <limits>

using namespace troupe;
using kernels::activation;
using tests::on_cpu;
using tests::relative_error;

namespace {

// A few operations after an exponential with error 1e-7.
constexpr double rounding = 5e-7;

activation any_kind() {
  return GENERATE(from_range(kernels::every_activation));
}

}  // namespace

TEST_CASE("activations on the cpu are accurate along the whole axis", "[kernels][cpu]") {
  // Absolute error below 1, relative above: the tail of a GELU is nearly 0.
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

TEST_CASE("activations on the cpu propagate NaN", "[kernels][cpu]") {
  tests::activation_memory<float> a{.R = 1, .N = 5, .kind = any_kind()};
  a.x[2] = std::numeric_limits<float>::quiet_NaN();
  on_cpu(a.forward());
  on_cpu(a.backward());
  CHECK(std::isnan(a.y[2]));
  CHECK(std::isnan(a.dx[2]));
  CHECK_FALSE(std::isnan(a.y[1]));
}

// Cases beyond the operation tester (op_tester.hpp): activations along the whole axis, and NaN,
// without and with weights of rows.

#include "kernels/reference/reference.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"
#include "tests/support/weighted_activation.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <limits>

using namespace troupe;
using kernels::activation;
using tests::activation_memory;
using tests::on_cpu;
using tests::relative_error;
using tests::weighted_activation_memory;

namespace {

// A few operations after an exponential with error 1e-7.
constexpr double rounding = 5e-7;

activation any_kind() {
  return GENERATE(from_range(kernels::every_activation));
}

}  // namespace

TEMPLATE_TEST_CASE("activations on the cpu are accurate along the whole axis",
                   "[kernels][cpu]",
                   activation_memory<float>,
                   weighted_activation_memory<float>) {
  // Absolute error below 1, relative above: the tail of a GELU is nearly 0.
  TestType a{activation_memory<float>{
      .R = 1, .N = 40001, .kind = any_kind(), .gated = GENERATE(false, true)}};
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
  if constexpr (requires { a.dweight; }) {
    double magnitude = 0;  // the sum itself is 0 for odd functions
    for (const float y : a.y)
      magnitude += std::abs(y);
    CHECK(std::abs(double(b.dweight[0]) - a.dweight[0]) < 1e-6 * magnitude);
  }
}

TEMPLATE_TEST_CASE("activations on the cpu propagate NaN",
                   "[kernels][cpu]",
                   activation_memory<float>,
                   weighted_activation_memory<float>) {
  TestType a{
      activation_memory<float>{.R = 1, .N = 5, .kind = any_kind(), .gated = GENERATE(false, true)}};
  a.x[2] = std::numeric_limits<float>::quiet_NaN();
  on_cpu(a.forward());
  on_cpu(a.backward());
  CHECK(std::isnan(a.y[2]));
  CHECK(std::isnan(a.dx[2]));
  CHECK_FALSE(std::isnan(a.y[1]));
  if constexpr (requires { a.dweight; })
    CHECK(std::isnan(a.dweight[0]));
}

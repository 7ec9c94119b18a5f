#include "kernels/reference/reference.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::tests;
using kernels::reference::run;

namespace {

/// AdamW for one number, as in algorithm 2 of the paper, with a step count instead of corrections.
struct scalar_adamw {
  double x, m = 0, v = 0;

  void step(int t, double gradient, const kernels::adamw<double>& like) {
    const double beta1 = like.beta1, beta2 = like.beta2;
    const double g = gradient * like.gradient_scale;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    const double m_hat = m / (1 - std::pow(beta1, t)), v_hat = v / (1 - std::pow(beta2, t));
    const double decay = like.weight_decay * x;
    x -= like.rate * (m_hat / (std::sqrt(v_hat) + like.eps) + decay);
  }
};

}  // namespace

TEST_CASE("the first AdamW step moves by the rate against the sign of the gradient",
          "[kernels][reference][adamw]") {
  adamw_memory<double> t{.n = 2, .weight_decay = 0};
  t.x = {1, 1};
  t.m = t.v = {0, 0};
  t.dx = {3, -0.01};
  auto op = t.step();
  op.correction1 = 1 - op.beta1;
  op.correction2 = 1 - op.beta2;
  run(op);
  // eps is 1e-8 next to gradients of 0.005, and corrections are rounded to float.
  const double rate = op.rate;
  CHECK(relative_error(t.x, std::vector<double>{1 - rate, 1 + rate}) < 1e-8);
}

TEST_CASE("weight decay alone shrinks the parameters and leaves the moments",
          "[kernels][reference][adamw]") {
  adamw_memory<double> t{.n = 3};
  const auto before = t.x;
  t.m = t.v = t.dx = {0, 0, 0};
  const auto op = t.step();
  run(op);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(t.x[i] == before[i] - double(op.rate) * double(op.weight_decay) * before[i]);
  CHECK(t.m == std::vector<double>(3, 0));
  CHECK(t.v == std::vector<double>(3, 0));
}

TEST_CASE("AdamW agrees with a scalar written by hand over ten steps",
          "[kernels][reference][adamw]") {
  adamw_memory<double> t{.n = 5};
  t.m = t.v = std::vector<double>(5, 0);
  std::vector<scalar_adamw> expected;
  for (const auto x : t.x)
    expected.push_back({.x = x});
  for (int step = 1; step <= 10; ++step) {
    t.dx = normal<double>(5, std::uint32_t(step));
    auto op = t.step();
    op.correction1 = float(1 - std::pow(double(op.beta1), step));
    op.correction2 = float(1 - std::pow(double(op.beta2), step));
    run(op);
    for (std::size_t i = 0; i < 5; ++i)
      expected[i].step(step, t.dx[i], op);
  }
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(std::abs(t.x[i] - expected[i].x) < 1e-8);  // ten steps of 1e-3, corrections in float
    CHECK(std::abs(t.m[i] - expected[i].m) < 1e-15);
    CHECK(std::abs(t.v[i] - expected[i].v) < 1e-15);
  }
}

TEMPLATE_TEST_CASE("AdamW also writes its parameters rounded",
                   "[kernels][reference][adamw]",
                   kernels::bf16,
                   kernels::f16) {
  adamw_memory<float, TestType> t{.n = 37};
  t.rounded = blank<TestType>(t.n);
  run(t.step());
  for (std::size_t i = 0; i < t.x.size(); ++i)
    CHECK(t.rounded[i] == TestType(t.x[i]));
}

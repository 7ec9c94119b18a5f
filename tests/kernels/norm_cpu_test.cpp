// Cases beyond the operation tester (op_tester.hpp): rows with a mean far from zero, null
// statistics, the fused residual sum and overwritten gradients.

#include "kernels/reference/reference.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace troupe;
using tests::on_cpu;
using tests::relative_error;

TEST_CASE("norm on the cpu is accurate for rows with a mean far from zero", "[kernels][cpu]") {
  tests::norm_memory<float> a{.R = 4, .C = 769};
  for (auto& value : a.x)
    value += 1000;
  auto b = a;
  kernels::reference::run(a.forward());
  on_cpu(b.forward());
  // The mean is accurate to 1e-4 of a standard deviation: a float near 1000, and a sum of 769 of
  // them.
  CHECK(relative_error(b.y, a.y) < 2e-4);
  CHECK(relative_error(b.rstd, a.rstd) < 1e-5);
}

TEST_CASE("norm on the cpu accepts null statistics", "[kernels][cpu]") {
  tests::norm_memory<float> a{.R = 3, .C = 19}, b = a;
  on_cpu(a.forward());
  auto op = b.forward();
  op.mean = nullptr;
  op.rstd = nullptr;
  on_cpu(op);
  CHECK(b.y == a.y);
}

TEMPLATE_TEST_CASE("the residual sum of a norm on the cpu has the bits of a separate sum",
                   "[kernels][cpu]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  const auto kind = GENERATE(kernels::normalization::layer, kernels::normalization::rms);
  tests::norm_memory<TestType> a{.R = 7, .C = 131, .kind = kind};
  auto b = a;
  auto sum = b.x;
  auto at_once = a.forward();
  at_once.residual = a.residual.data();
  at_once.sum = a.dx.data();
  on_cpu(at_once);
  on_cpu(kernels::dropout_forward<TestType>{.y = sum.data(),
                                            .x = b.x.data(),
                                            .residual = b.residual.data(),
                                            .R = b.R,
                                            .C = b.C,
                                            .T_ = b.R,
                                            .p = 0,
                                            .key = 0,
                                            .sample = nullptr});
  b.x = sum;
  on_cpu(b.forward());
  const auto same = [](const auto& x, const auto& y) {
    return std::memcmp(x.data(), y.data(), sizeof(x[0]) * x.size()) == 0;
  };
  CHECK(same(a.dx, sum));
  CHECK(same(a.y, b.y));
  CHECK(same(a.mean, b.mean));
  CHECK(same(a.rstd, b.rstd));
}

// Terms so small that each sum is a signed zero; adding it to a cleared array removes the sign.
TEST_CASE("overwriting sums over rows on the cpu have the bits of sums added to zeros",
          "[kernels][cpu]") {
  tests::norm_memory<float> a{.R = 65, .C = 19};
  for (std::int64_t i = 0; i < a.R * a.C; ++i) {
    a.x[std::size_t(i)] = i % 2 == 0 ? 1e-30F : -1e-30F;
    a.dy[std::size_t(i)] = -a.x[std::size_t(i)];
  }
  std::fill(a.mean.begin(), a.mean.end(), 0.0F);
  std::fill(a.rstd.begin(), a.rstd.end(), 1.0F);
  std::fill(a.dgain.begin(), a.dgain.end(), 0.0F);
  std::fill(a.dbias.begin(), a.dbias.end(), 0.0F);
  auto b = a;
  on_cpu(a.backward_weight());
  auto written = b.backward_weight();
  written.gain_accumulates = written.bias_accumulates = false;
  std::fill(b.dgain.begin(), b.dgain.end(), 7.0F);
  std::fill(b.dbias.begin(), b.dbias.end(), 7.0F);
  on_cpu(written);
  CHECK_FALSE(std::signbit(b.dgain[0]));
  CHECK(std::memcmp(b.dgain.data(), a.dgain.data(), sizeof(float) * b.dgain.size()) == 0);
  CHECK(std::memcmp(b.dbias.data(), a.dbias.data(), sizeof(float) * b.dbias.size()) == 0);
}

TEST_CASE("norm on the cpu refuses a workspace that is too small", "[kernels][cpu]") {
  tests::norm_memory<float> a{.R = 3, .C = 19};
  CHECK_THROWS_AS(kernels::run(kernels::backend::cpu, a.backward_weight(), {}), std::logic_error);
}

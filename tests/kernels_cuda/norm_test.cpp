// Cases beyond the operation tester (op_tester_test.cpp): rows with a mean far from zero, a
// misaligned residual, omitted statistics, a workspace that is too small.

#include "tests/support/device_ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace troupe;
using tests::error_of;
using tests::in_double;
using tests::norm_memory;
using tests::on_device;

TEST_CASE("norm on a device is precise for a row with a mean far from zero", "[kernels][cuda]") {
  // Rows in registers, rows read twice with vector loads, and rows read twice element by element.
  const std::int64_t C = GENERATE(768, 20480, 769);
  norm_memory<float> m{.R = 4, .C = C};
  for (auto& value : m.x)
    value += 1000;
  auto exact = in_double(m);
  kernels::reference::run(exact.forward());
  on_device(m, m.forward());
  // The error of the mean is 1e-4 of a standard deviation: floats near 1000 and their sum.
  CHECK(error_of(m.y, exact.y) < 2e-4);
  CHECK(tests::relative_error(m.rstd, exact.rstd) < 1e-5);
}

TEST_CASE("norm on a device accepts a residual that alone is misaligned", "[kernels][cuda]") {
  norm_memory<float> m{.R = 5, .C = 24, .with_residual = true};
  m.residual = tests::normal<float>(std::size_t(m.R * m.C) + 1, 9);
  auto exact = in_double(m);
  kernels::reference::run(exact.forward());
  tests::copy_array(m.mean, exact.mean);
  tests::copy_array(m.rstd, exact.rstd);
  auto op = m.backward_input();
  auto judge = exact.backward_input();
  ++op.residual;
  ++judge.residual;
  on_device(m, op);
  kernels::reference::run(judge);
  CHECK(error_of(m.dx, exact.dx) < 1e-5);
}

TEST_CASE("norm on a device omits statistics with a null pointer", "[kernels][cuda]") {
  const std::int64_t C = GENERATE(19, 24);
  norm_memory<float> a{.R = 3, .C = C}, b = a;
  on_device(a, a.forward());
  auto op = b.forward();
  op.mean = nullptr;
  op.rstd = nullptr;
  on_device(b, op);
  CHECK(b.y == a.y);
  CHECK(b.mean.front() == tests::unwritten);
}

TEMPLATE_TEST_CASE("on a device norm's own residual sum has the bits of a separate addition",
                   "[kernels][cuda]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  const auto kind = GENERATE(kernels::normalization::layer, kernels::normalization::rms);
  // Rows in registers, rows without vector loads, and rows that are read twice.
  const std::int64_t C = GENERATE(136, 131, 20480);
  norm_memory<TestType> a{.R = 3, .C = C, .kind = kind};
  a.x[0] = a.residual[0] = TestType(-0.0F);
  auto b = a;
  auto at_once = a.forward();
  at_once.residual = a.residual.data();
  at_once.sum = a.dx.data();
  on_device(a, at_once);
  tests::dropout_memory<TestType> sum{.sequences = 1, .T_ = 3, .C = C, .p = 0};
  sum.x = b.x;
  sum.residual = b.residual;
  on_device(sum, sum.forward());
  b.x = sum.y;
  on_device(b, b.forward());
  const auto same = [](const auto& x, const auto& y) {
    return std::memcmp(x.data(), y.data(), sizeof(x[0]) * x.size()) == 0;
  };
  CHECK(same(a.dx, sum.y));
  CHECK(same(a.y, b.y));
  CHECK(same(a.mean, b.mean));
  CHECK(same(a.rstd, b.rstd));
}

// The terms are so small that each sum is a signed zero; adding it to a cleared array removes the
// sign.
TEST_CASE("sums over rows on a device have the same bits when written and when added to zeros",
          "[kernels][cuda]") {
  const std::int64_t C = GENERATE(19, 24);
  norm_memory<float> a{.R = 65, .C = C};
  for (std::int64_t i = 0; i < a.R * a.C; ++i) {
    a.x[std::size_t(i)] = i % 2 == 0 ? 1e-30F : -1e-30F;
    a.dy[std::size_t(i)] = -a.x[std::size_t(i)];
  }
  std::fill(a.mean.begin(), a.mean.end(), 0.0F);
  std::fill(a.rstd.begin(), a.rstd.end(), 1.0F);
  std::fill(a.dgain.begin(), a.dgain.end(), 0.0F);
  std::fill(a.dbias.begin(), a.dbias.end(), 0.0F);
  auto b = a;
  on_device(a, a.backward_weight());
  auto written = b.backward_weight();
  written.gain_accumulates = written.bias_accumulates = false;
  std::fill(b.dgain.begin(), b.dgain.end(), 7.0F);
  std::fill(b.dbias.begin(), b.dbias.end(), 7.0F);
  on_device(b, written);
  CHECK_FALSE(std::signbit(b.dgain[0]));
  CHECK(std::memcmp(b.dgain.data(), a.dgain.data(), sizeof(float) * b.dgain.size()) == 0);
  CHECK(std::memcmp(b.dbias.data(), a.dbias.data(), sizeof(float) * b.dbias.size()) == 0);
}

TEST_CASE("norm on a device refuses a workspace that is too small", "[kernels][cuda]") {
  norm_memory<float> m{.R = 3, .C = 19};
  CHECK_THROWS_AS(kernels::cuda::run(m.backward_weight(), {}), std::logic_error);
}

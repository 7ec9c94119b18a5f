// Cases beyond op_tester.hpp and products_test.cpp: fused operations have the bits of two
// operations, and the caller's thread count is preserved.

#include "kernels/cpu/product.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>
#include <omp.h>
#include <vector>

using namespace troupe;
using kernels::epilogue;
using memory = tests::linear_memory<float>;

namespace {

memory computed(memory m, int threads) {
  tests::on_cpu(m.forward(), threads);
  tests::on_cpu(m.backward_input(), threads);
  tests::on_cpu(m.backward_weight(), threads);
  return m;
}

}  // namespace

// Keeps the losses of earlier builds, which computed the gradient with two operations.
TEMPLATE_TEST_CASE(
    "cpu gradients fused with the input's activation have the bits of two operations",
    "[kernels][linear][narrow]",
    float,
    kernels::bf16,
    kernels::f16) {
  for (const auto made_x : kernels::every_epilogue) {
    if (made_x == epilogue::none)
      continue;
    for (const int threads : {1, 2}) {
      tests::linear_memory<TestType> together{.R = 37, .N = 71, .K = 29, .made_x = made_x};
      auto apart = together;
      tests::on_cpu(together.backward_input(), threads);
      apart.made_x = epilogue::none;
      tests::on_cpu(apart.backward_input(), threads);
      tests::on_cpu(kernels::activation_backward<TestType>{apart.z_of_x.data(),
                                                           apart.dx.data(),
                                                           apart.z_of_x.data(),
                                                           apart.R,
                                                           apart.K,
                                                           kernels::activation_of(made_x)},
                    threads);
      CHECK(together.dx == apart.z_of_x);
    }
  }
}

// Three bf16 hold exactly the 24 bits of a float (amx.hpp).
TEST_CASE("a product preserves every bit of large and small factors", "[kernels][linear]") {
  const kernels::cpu::small_products_in_tiles all;
  constexpr std::int64_t R = 40, K = 40;
  memory m{.R = R, .N = K, .K = K, .with_bias = false};
  m.with_z = false;
  const float largest = std::numeric_limits<float>::max();
  const float values[] = {largest,
                          -largest,
                          std::nextafter(largest, 0.F),
                          3.3895314e38F,  // the largest bf16
                          std::nextafter(3.3895314e38F, largest),
                          std::nextafter(1.F, 2.F),
                          std::nextafter(1.F, 0.F),
                          -1.00390625F,  // between two bf16
                          0.333333343F,
                          16777215,
                          -3.14159274e-20F,
                          1.1000002e-31F};
  std::vector<float> x(R * K), identity(K * K);
  for (std::int64_t i = 0; i < R * K; ++i)
    x[i] = values[i % std::size(values)];
  for (std::int64_t i = 0; i < K; ++i)
    identity[i * K + i] = i % 2 == 0 ? 1 : -1;
  std::vector<float> y(R * K);
  tests::on_cpu(
      kernels::linear_forward<float>{
          .y = y.data(), .x = x.data(), .weight = identity.data(), .R = R, .N = K, .K = K},
      1);
  for (std::int64_t i = 0; i < R * K; ++i) {
    INFO("x " << x[i]);
    CHECK(y[i] == (i % K % 2 == 0 ? x[i] : -x[i]));
  }
  // Uses the same values as the other factor.
  std::vector<float> turned(R * K), eye(R * R);
  for (std::int64_t i = 0; i < R; ++i)
    eye[i * R + i] = 1;
  tests::on_cpu(
      kernels::linear_backward_input<float>{
          .dx = turned.data(), .dz = eye.data(), .weight = x.data(), .R = R, .N = R, .K = K},
      1);
  CHECK(turned == x);
}

TEST_CASE("infinity and NaN reach exactly the results that depend on them", "[kernels][linear]") {
  const kernels::cpu::small_products_in_tiles all;
  constexpr std::int64_t R = 33, N = 34, K = 70;
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()})
    for (const bool in_weight : {false, true}) {
      std::vector<float> x(R * K, 0.75F), weight(N * K, 1.3F), y(R * N);
      (in_weight ? weight : x)[7 * K + 60] = bad;
      tests::on_cpu(
          kernels::linear_forward<float>{
              .y = y.data(), .x = x.data(), .weight = weight.data(), .R = R, .N = N, .K = K},
          1);
      for (std::int64_t i = 0; i < R * N; ++i) {
        const bool touched = (in_weight ? i % N : i / N) == 7;
        CHECK(std::isfinite(y[i]) != touched);
        if (touched && std::isinf(bad))
          CHECK(y[i] == bad);
      }
    }
}

TEST_CASE("a product preserves the caller's thread count", "[kernels][linear]") {
  const int before = omp_get_max_threads();
  computed({.R = 3, .N = 3, .K = 3}, before + 1);
  CHECK(omp_get_max_threads() == before);
}

TEMPLATE_TEST_CASE("each of a few rows has the bits that it has alone",
                   "[kernels][linear][narrow]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  for (const std::int64_t R : {2, 3, 5, 8})
    for (const int threads : {1, 3}) {
      // Enough work for several threads; tails of vectors and of columns.
      tests::linear_memory<TestType> together{.R = R, .N = 1031, .K = 77};
      tests::on_cpu(together.forward(), threads);
      for (std::int64_t r = 0; r < R; ++r) {
        tests::linear_memory<TestType> alone{.R = 1, .N = 1031, .K = 77};
        std::copy_n(together.x.begin() + r * 77, 77, alone.x.begin());
        tests::on_cpu(alone.forward());
        CHECK(std::equal(alone.y.begin(), alone.y.end(), together.y.begin() + r * 1031));
      }
    }
}

// Beside the tester (op_tester.hpp) and products_test.cpp: the bits of two operations, and the
// caller's threads.

#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <omp.h>

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

// Losses of earlier builds, which went back by two operations, keep their bits.
TEMPLATE_TEST_CASE("cpu gradients through what made the input have the bits of two operations",
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

TEST_CASE("a product leaves the caller's number of threads as it was", "[kernels][linear]") {
  const int before = omp_get_max_threads();
  computed({.R = 3, .N = 3, .K = 3}, before + 1);
  CHECK(omp_get_max_threads() == before);
}

TEMPLATE_TEST_CASE("of a few rows each has the bits that it has alone",
                   "[kernels][linear][narrow]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  for (const std::int64_t R : {2, 3, 5, 8})
    for (const int threads : {1, 3}) {
      // Enough for several threads; rests of vectors and of columns.
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

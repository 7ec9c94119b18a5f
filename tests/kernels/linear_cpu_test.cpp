// The fast products against the judge, which sums in double.

#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <omp.h>

using namespace troupe;
using kernels::backend;
using kernels::epilogue;
using memory = tests::linear_memory<float>;

namespace {

// Sums of at most 1,543 products in float, each rounded once: the square root of their number
// times 6e-8, relative to the largest result.
constexpr double tolerance = 3e-6;

memory judged(memory m) {
  kernels::run(backend::reference, m.forward(), {});
  kernels::run(backend::reference, m.backward_input(), {});
  kernels::run(backend::reference, m.backward_weight(), {});
  return m;
}

memory computed(memory m, int threads) {
  tests::on_cpu(m.forward(), threads);
  tests::on_cpu(m.backward_input(), threads);
  tests::on_cpu(m.backward_weight(), threads);
  return m;
}

void check(const memory& m) {
  const memory judge = judged(m);
  for (const int threads : {1, 2}) {
    const memory mine = computed(m, threads);
    INFO("R " << m.R << " N " << m.N << " K " << m.K << " threads " << threads);
    CHECK(tests::relative_error(mine.y, judge.y) < tolerance);
    CHECK(tests::relative_error(mine.z, judge.z) < tolerance);
    CHECK(tests::relative_error(mine.dx, judge.dx) < tolerance);
    CHECK(tests::relative_error(mine.dweight, judge.dweight) < tolerance);
    CHECK(tests::relative_error(mine.dbias, judge.dbias) < tolerance);
  }
}

}  // namespace

TEST_CASE("cpu products agree with the judge at odd sizes", "[kernels][linear]") {
  check({.R = 1, .N = 1, .K = 1});
  check({.R = 1, .N = 97, .K = 64});
  check({.R = 31, .N = 1, .K = 7});
  check({.R = 17, .N = 65, .K = 1});
  check({.R = 131, .N = 113, .K = 127});
  check({.R = 1543, .N = 67, .K = 19});
  check({.R = 5, .N = 19, .K = 1543});
}

TEST_CASE("cpu products agree with the judge with every epilogue", "[kernels][linear]") {
  for (const auto activation :
       {epilogue::none, epilogue::gelu_tanh, epilogue::gelu_erf, epilogue::squared_relu}) {
    for (const bool with_bias : {false, true}) {
      for (const bool with_z : {false, true})
        check({.R = 37,
               .N = 71,
               .K = 29,
               .activation = activation,
               .with_bias = with_bias,
               .with_z = with_z});
    }
  }
}

// Losses of earlier builds, which went back by two operations, keep their bits.
TEMPLATE_TEST_CASE("cpu gradients through what made the input have the bits of two operations",
                   "[kernels][linear][narrow]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  for (const auto made_x : {epilogue::gelu_tanh, epilogue::gelu_erf, epilogue::squared_relu}) {
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

TEST_CASE("the gradient of a weight is added to what is there", "[kernels][linear]") {
  memory m{.R = 7, .N = 5, .K = 3};
  const auto before = m.dweight;
  std::fill(m.dz.begin(), m.dz.end(), 0.0f);
  tests::on_cpu(m.backward_weight());
  CHECK(m.dweight == before);
}

TEST_CASE("cpu products of no rows write nothing", "[kernels][linear]") {
  memory m{.R = 0, .N = 5, .K = 3};
  const auto before = m.dweight;
  computed(m, 2);
  CHECK(m.dweight == before);
}

TEST_CASE("cpu products give the same bits again", "[kernels][linear]") {
  const memory m{.R = 771, .N = 129, .K = 385, .activation = epilogue::gelu_tanh};
  for (const int threads : {1, 2}) {
    const memory one = computed(m, threads), again = computed(m, threads);
    CHECK(one.y == again.y);
    CHECK(one.dx == again.dx);
    CHECK(one.dweight == again.dweight);
    CHECK(one.dbias == again.dbias);
  }
}

TEST_CASE("a product leaves the caller's number of threads as it was", "[kernels][linear]") {
  const int before = omp_get_max_threads();
  computed({.R = 3, .N = 3, .K = 3}, before + 1);
  CHECK(omp_get_max_threads() == before);
}

#include "runtime/machine/matrix_rate.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>

using namespace troupe;

TEST_CASE("a matrix rate is measured for every backend, precision and number of workers",
          "[machine]") {
  const auto where = GENERATE(kernels::backend::cpu, kernels::backend::reference);
  const bool in_bf16 = GENERATE(false, true);
  const int workers = GENERATE(1, 3);
  const double rate = runtime::measured_matrix_rate(where, workers, 1, in_bf16);
  CHECK(std::isfinite(rate));
  CHECK(rate > 1e6);  // below the slowest loops on the slowest machine
}

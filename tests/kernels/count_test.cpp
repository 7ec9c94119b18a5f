#include "kernels/op/count.hpp"

#include "kernels/cpu/cpu.hpp"
#include "kernels/reference/reference.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

using namespace troupe;

TEST_CASE("zeros of either sign are counted, and nothing else", "[kernels][reference]") {
  const std::vector<float> x
      = {0.0F, -0.0F, 1e-45F, -1.0F, NAN, INFINITY, std::numeric_limits<float>::min(), 0.0F};
  std::int64_t zeros = -1;
  kernels::reference::run(kernels::count_zeros<float>{&zeros, x.data(), std::int64_t(x.size())});
  CHECK(zeros == 3);
  CHECK(flops(kernels::count_zeros<float>{&zeros, x.data(), 8}) == 8);
  CHECK(bytes_moved(kernels::count_zeros<float>{&zeros, x.data(), 8}) == 32);
}

TEST_CASE("zeros counted on the cpu are those of the reference", "[kernels][cpu]") {
  // Nothing; one; odd; enough for several threads, with a rest.
  const std::int64_t n = GENERATE(0, 1, 61, 100003);
  const int threads = GENERATE(1, 2, 3);
  std::vector<float> x(std::size_t(n), 0.0F);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = i % 3 == 0 ? 0.0F : i % 7 == 0 ? -0.0F : i % 11 == 0 ? NAN : float(i) * 1e-40F;
  std::int64_t here = -1, there = -1;
  kernels::cpu::run(kernels::count_zeros<float>{&here, x.data(), n}, {threads, {}});
  kernels::reference::run(kernels::count_zeros<float>{&there, x.data(), n});
  CHECK(here == there);
}

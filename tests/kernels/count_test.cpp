#include "kernels/op/count.hpp"

#include "kernels/reference/reference.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

using namespace troupe;

TEST_CASE("only zeros are counted, of either sign", "[kernels][reference]") {
  const std::vector<float> x
      = {0.0F, -0.0F, 1e-45F, -1.0F, NAN, INFINITY, std::numeric_limits<float>::min(), 0.0F};
  std::int64_t zeros = -1;
  kernels::reference::run(kernels::count_zeros<float>{&zeros, x.data(), std::int64_t(x.size())});
  CHECK(zeros == 3);
  CHECK(flops(kernels::count_zeros<float>{&zeros, x.data(), 8}) == 8);
  CHECK(bytes_moved(kernels::count_zeros<float>{&zeros, x.data(), 8}) == 32);
}

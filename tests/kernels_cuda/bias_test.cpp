#include "tests/support/device_ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using tests::device_array;
using tests::normal;

namespace {

struct shape {
  std::int64_t R, N;
};

template <class T>
std::vector<float> bias_on_device(const std::vector<T>& dz,
                                  const std::vector<float>& dbias,
                                  std::int64_t R,
                                  std::int64_t N,
                                  std::size_t shift) {
  const device_array<T> from(dz, shift);
  device_array<float> to(dbias, shift);
  tests::run_on_device(
      kernels::bias_backward<T>{.dbias = to.data(), .dz = from.data(), .R = R, .N = N});
  return to.download();
}

}  // namespace

TEMPLATE_TEST_CASE("the gradient of a bias on a device agrees with the judge, in every run alike",
                   "[kernels][cuda]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  const auto [R, N] = GENERATE(shape{0, 5},
                               shape{1, 1},
                               shape{3, 7},
                               shape{64, 8},
                               shape{65, 136},
                               shape{331, 264},
                               shape{2053, 40});
  const std::size_t shift = GENERATE(0, 1);
  const auto dz = normal<TestType>(std::size_t(R * N), std::uint32_t(R));
  const auto before = normal<float>(std::size_t(N), 2);
  auto exact = std::vector<double>(before.begin(), before.end());
  const auto wide = tests::exactly(dz);
  kernels::reference::run(
      kernels::bias_backward<double>{.dbias = exact.data(), .dz = wide.data(), .R = R, .N = N});
  const auto mine = bias_on_device(dz, before, R, N, shift);
  // Some hundred roundings of 6e-8, adding up as a random walk does.
  CHECK(tests::error_of(mine, exact) < 2e-6);
  const tests::emulated_seed other(9);
  CHECK(bias_on_device(dz, before, R, N, shift) == mine);
}

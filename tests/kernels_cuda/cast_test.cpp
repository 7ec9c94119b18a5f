#include "tests/support/device_ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <bit>

using namespace troupe;
using tests::device_array;

namespace {

template <class T>
std::vector<T> narrowed(const std::vector<float>& x, std::size_t shift) {
  const device_array<float> from(x, shift);
  device_array<T> to(x.size(), shift);
  tests::run_on_device(
      kernels::narrow<T>{.y = to.data(), .x = from.data(), .n = std::int64_t(x.size())});
  return to.download();
}

template <class T>
std::vector<float> widened(const std::vector<T>& x, std::size_t shift) {
  const device_array<T> from(x, shift);
  device_array<float> to(x.size(), shift);
  tests::run_on_device(
      kernels::widen<T>{.y = to.data(), .x = from.data(), .n = std::int64_t(x.size())});
  return to.download();
}

}  // namespace

TEMPLATE_TEST_CASE("widening and narrowing on a device keeps each narrow number",
                   "[kernels][cuda]",
                   kernels::bf16,
                   kernels::f16) {
  const std::size_t shift = GENERATE(0, 1);
  const auto all = tests::all_numbers<TestType>();
  const auto wide = widened(all, shift);
  const auto back = narrowed<TestType>(wide, shift);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::isnan(float(all[i]))) {
      CHECK(std::isnan(wide[i]));
      CHECK(std::isnan(float(back[i])));
    } else {
      CHECK(std::bit_cast<std::uint32_t>(wide[i]) == std::bit_cast<std::uint32_t>(float(all[i])));
      CHECK(back[i] == all[i]);
    }
  }
}

TEMPLATE_TEST_CASE("a device narrows any number of floats like the host",
                   "[kernels][cuda]",
                   kernels::bf16,
                   kernels::f16) {
  const std::size_t n = GENERATE(0, 1, 7, 8, 61, 4099), shift = GENERATE(0, 3);
  auto x = tests::normal<float>(n, std::uint32_t(n));
  // Midpoints between two numbers of either type, the largest numbers, larger ones, and denormals.
  const std::vector<float> special{1 + 0x1p-8f,
                                   1 + 0x3p-8f,
                                   1 + 0x1p-11f,
                                   1 + 0x3p-11f,
                                   65504,
                                   65519,
                                   65520,
                                   3.4e38f,
                                   0x1p-24f,
                                   0x1p-25f,
                                   0x3p-25f,
                                   0x1p-140f,
                                   -0.0f};
  for (std::size_t i = 0; i < special.size() && 2 * i + 1 < n; ++i)
    x[2 * i + 1] = special[i];
  std::vector<TestType> expected(n);
  kernels::reference::run(
      kernels::narrow<TestType>{.y = expected.data(), .x = x.data(), .n = std::int64_t(n)});
  CHECK(narrowed<TestType>(x, shift) == expected);
}

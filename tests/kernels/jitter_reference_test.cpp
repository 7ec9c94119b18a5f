// Jitter's reference: range, mean and numbering of its factors.

#include "kernels/reference/reference.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

using namespace troupe;
using kernels::reference::run;

namespace {

constexpr std::int64_t sequences = 2, T_ = 50, C = 40, R = sequences * T_;
constexpr float eps = 0.25F;
constexpr std::uint64_t key = 99;

/// The factors of both sequences, obtained as the jitter of ones.
std::vector<double> factors(const std::vector<std::uint64_t>& samples) {
  const std::vector<double> x(R * C, 1);
  std::vector<double> y(x.size());
  run(kernels::jitter<double>{.y = y.data(),
                              .x = x.data(),
                              .R = R,
                              .C = C,
                              .T_ = T_,
                              .eps = eps,
                              .key = key,
                              .sample = samples.data()});
  return y;
}

}  // namespace

TEST_CASE("jitter's factors fill the range around 1", "[kernels][reference][jitter]") {
  const auto y = factors({7, 8});
  const auto [least, most] = std::ranges::minmax(y);
  // The outer hundredths of the range have 40 of 4000 factors each.
  CHECK(least >= 1 - eps);
  CHECK(least < 1 - 0.98 * eps);
  CHECK(most < 1 + eps);
  CHECK(most > 1 + 0.98 * eps);
  const double mean = std::accumulate(y.begin(), y.end(), 0.0) / double(y.size());
  // Five standard deviations of a mean of uniform numbers. The seed is fixed, so the result is
  // constant.
  CHECK(std::abs(mean - 1) < 5 * eps / std::sqrt(3 * double(y.size())));
}

TEST_CASE("a factor of jitter is the upper 24 bits of its random word",
          "[kernels][reference][jitter]") {
  const auto y = factors({7, 8});
  // Row 53 is row 3 of the sequence of sample 8.
  const auto word = kernels::philox_word(key, 8, 3 * C + 5);
  CHECK(y[53 * C + 5] == 0.75 + 0.5 * (word >> 8) / 16777216.0);
}

TEST_CASE("jitter's factors depend on the sample alone", "[kernels][reference][jitter]") {
  const auto y = factors({7, 8}), other = factors({8, 7});
  const auto half = std::ptrdiff_t(y.size() / 2);
  CHECK(std::equal(y.begin(), y.begin() + half, other.begin() + half));
  CHECK(std::equal(y.begin() + half, y.end(), other.begin()));
  CHECK_FALSE(std::equal(y.begin(), y.begin() + half, y.begin() + half));
}

#include "kernels/op/f16.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>
#include <random>

using troupe::kernels::f16;

namespace {

using exact = long double;

f16 of_bits(std::uint32_t bits) {
  f16 x;
  x.bits = std::uint16_t(bits);
  return x;
}

/// The value of the bits, by IEEE 754 section 3.4.
exact meaning(std::uint32_t bits) {
  const int exponent = int(bits >> 10 & 0x1f);
  const auto fraction = int(bits & 0x3ff);
  const exact sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31)
    return fraction == 0 ? sign * HUGE_VALL : std::numeric_limits<exact>::quiet_NaN();
  return exponent == 0 ? sign * std::ldexp(exact(fraction), -24)
                       : sign * std::ldexp(exact(1024 + fraction), exponent - 25);
}

/// The nearest nonnegative number by binary search; ties to even.
std::uint32_t nearest(exact x) {
  std::uint32_t low = 0, high = 0x7c00;  // meaning(low) <= x; x < high, or high is infinity
  if (x >= 65520.0L)
    return high;
  while (high - low > 1) {
    const auto middle = (low + high) / 2;
    (meaning(middle) <= x ? low : high) = middle;
  }
  const exact upper = high == 0x7c00 ? 65536.0L : meaning(high);
  const exact below = x - meaning(low), above = upper - x;
  if (below == above)
    return low % 2 == 0 ? low : high;
  return below < above ? low : high;
}

void check_rounding(float x) {
  const auto expected = nearest(std::abs(exact(x))) | (std::signbit(x) ? 0x8000U : 0U);
  if (f16(x).bits != expected) {
    INFO("of " << x);
    CHECK(f16(x).bits == expected);
  }
}

}  // namespace

TEST_CASE("every f16 has its IEEE 754 value and survives a round trip through float",
          "[kernels][reference][f16]") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const f16 x = of_bits(bits);
    const exact expected = meaning(bits);
    if (std::isnan(expected)) {
      CHECK(std::isnan(float(x)));
      CHECK(std::isnan(float(f16(float(x)))));
    } else {
      CHECK(exact(float(x)) == expected);
      CHECK(std::signbit(float(x)) == ((bits & 0x8000) != 0));
      CHECK(f16(float(x)) == x);
    }
  }
}

TEST_CASE("f16 rounds every float to nearest, ties to even", "[kernels][reference][f16]") {
  // Every f16, every midpoint of two neighbours, and the floats next to both.
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto x = float(of_bits(bits));
    const float next = bits == 0x7bff ? 65536.0f : float(of_bits(bits + 1));
    for (const float at : {x, x + (next - x) / 2})
      for (const float beside : {std::nextafter(at, 0.0f), at, std::nextafter(at, HUGE_VALF)}) {
        check_rounding(beside);
        check_rounding(-beside);
      }
  }
  // Random floats, most of which are too large or too small, and floats near f16's range.
  std::mt19937 random{7};
  for (int i = 0; i < 1'000'000; ++i) {
    const auto x = std::bit_cast<float>(std::uint32_t(random()));
    if (std::isnan(x))
      CHECK(std::isnan(float(f16(x))));
    else
      check_rounding(x);
    const auto exponent = std::uint32_t(127 - 27 + random() % 45);
    check_rounding(std::bit_cast<float>(exponent << 23 | (std::uint32_t(random()) & 0x807fffffU)));
  }
}

TEST_CASE("f16 overflows to infinity and underflows to zero", "[kernels][reference][f16]") {
  CHECK(float(f16(65504.0f)) == 65504);
  CHECK(float(f16(65519.996f)) == 65504);
  CHECK(std::isinf(float(f16(65520.0f))));
  CHECK(f16(-1e30f).bits == 0xfc00);
  CHECK(float(f16(0x1p-25f)) == 0);  // half the smallest denormal; 0 is even
  CHECK(float(f16(0x1.000002p-25f)) == 0x1p-24f);
  CHECK(f16(-0.0f).bits == 0x8000);
  CHECK(f16(std::numeric_limits<float>::denorm_min()).bits == 0);
}

TEST_CASE("NaN becomes a quiet NaN in f16", "[kernels][reference][f16]") {
  // A NaN; its upper bits alone would mean infinity.
  CHECK(f16(std::bit_cast<float>(0x7f800001U)).bits == 0x7e00);
  CHECK(f16(std::bit_cast<float>(0xffc02000U)).bits == 0xfe01);
}

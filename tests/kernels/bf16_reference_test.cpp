#include "kernels/op/bf16.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>

using troupe::kernels::bf16;

TEST_CASE("every bf16 survives a round trip through float", "[kernels][reference][bf16]") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    bf16 x;
    x.bits = std::uint16_t(bits);
    if (std::isnan(float(x)))
      CHECK(std::isnan(float(bf16(float(x)))));
    else
      CHECK(bf16(float(x)) == x);
  }
}

TEST_CASE("bf16 rounds to nearest, ties to even", "[kernels][reference][bf16]") {
  CHECK(float(bf16(1 + 0x1p-8f)) == 1);            // between 1 and 1 + 2^-7: 1 is even
  CHECK(float(bf16(1 + 0x3p-8f)) == 1 + 0x1p-6f);  // between odd and even: up
  CHECK(float(bf16(1 + 0x1p-8f + 0x1p-23f)) == 1 + 0x1p-7f);
  CHECK(float(bf16(-1 - 0x3p-8f)) == -1 - 0x1p-6f);
  CHECK(float(bf16(0x1p-134f)) == 0);          // half the smallest denormal
  CHECK(float(bf16(0x1p-133f)) == 0x1p-133f);  // the smallest denormal
  CHECK(std::isinf(float(bf16(std::numeric_limits<float>::max()))));
}

// bfloat16: the upper half of a float. Used for storage only: operations compute in float and round
// once, to nearest, ties to even.

#pragma once

#include <bit>
#include <cstdint>

namespace troupe::kernels {

struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  explicit bf16(float x) : bits(rounded(std::bit_cast<std::uint32_t>(x))) {}
  explicit bf16(double x) : bf16(float(x)) {}
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t(bits) << 16); }
  explicit operator double() const { return double(float(*this)); }

  friend bool operator==(const bf16&, const bf16&) = default;  ///< compares bits

 private:
  /// NaN becomes a quiet NaN; truncation alone could turn it into infinity.
  static constexpr std::uint16_t rounded(std::uint32_t x) {
    if ((x & 0x7fffffffU) > 0x7f800000U)
      return std::uint16_t((x >> 16) | 0x40U);
    return std::uint16_t((x + 0x7fffU + ((x >> 16) & 1U)) >> 16);
  }
};

}  // namespace troupe::kernels

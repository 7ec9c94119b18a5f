// IEEE 754 binary16 ("fp16", "half"): 5 exponent bits, 10 fraction bits. Used for storage only:
// operations compute in float and round once, to nearest, ties to even. Values from 65520 become
// infinity; denormals reach down to 2^-24. Training therefore scales its loss (runtime/optim).

#pragma once

#include <bit>
#include <cstdint>

namespace troupe::kernels {

struct f16 {
  std::uint16_t bits = 0;

  f16() = default;
  explicit f16(float x) : bits(rounded(x)) {}
  explicit f16(double x) : f16(float(x)) {}
  explicit operator float() const { return widened(bits); }
  explicit operator double() const { return double(float(*this)); }

  friend bool operator==(const f16&, const f16&) = default;  ///< compares bits

 private:
  static std::uint16_t rounded(float x) {
    const auto all = std::bit_cast<std::uint32_t>(x);
    const auto sign = std::uint16_t((all >> 16) & 0x8000U);
    const std::uint32_t magnitude = all & 0x7fffffffU;
    if (magnitude > 0x7f800000U)  // NaN becomes a quiet NaN
      return std::uint16_t(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU));
    if (magnitude >= 0x477ff000U)  // 65520 and more round to infinity
      return std::uint16_t(sign | 0x7c00U);
    if (magnitude < 0x38800000U) {  // below 2^-14: the float adder rounds to multiples of 2^-24
      const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
      return std::uint16_t(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
    }
    const std::uint32_t rebased = magnitude - 0x38000000U;  // exponent bias: 127 to 15
    return std::uint16_t(sign | ((rebased + 0xfffU + ((rebased >> 13) & 1U)) >> 13));
  }

  static float widened(std::uint16_t x) {
    const std::uint32_t sign = std::uint32_t(x & 0x8000U) << 16;
    const std::uint32_t magnitude = x & 0x7fffU;
    if (magnitude >= 0x7c00U)
      return std::bit_cast<float>(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13);
    if (magnitude < 0x400U) {  // denormal: an integer multiple of 2^-24
      const float value = float(magnitude) * 0x1p-24F;
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
    }
    return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000U));
  }
};

/// The narrow types to which parameters are rounded.
enum class narrow_type : std::uint8_t { bf16, f16 };

}  // namespace troupe::kernels

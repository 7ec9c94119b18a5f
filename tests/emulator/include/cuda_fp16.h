// __half: IEEE's 16-bit float, rounded to nearest, ties to even. Overflow becomes infinite and NaN
// becomes 0x7fff, as in the device's conversions.

#pragma once

#include "cuda_runtime.h"

struct __half_raw {
  unsigned short x;
};

namespace troupe::emulator {

inline unsigned short half_bits(float value) {
  const unsigned bits = std::bit_cast<unsigned>(value);
  const unsigned sign = (bits >> 16) & 0x8000U;
  const unsigned size = bits & 0x7fffffffU;
  if (size > 0x7f800000U)
    return 0x7fff;
  if (size >= 0x477ff000U)  // from 65520 on: half a step above the largest number
    return static_cast<unsigned short>(sign | 0x7c00U);
  if (size < 0x38800000U) {  // below 2^-14: adding 0.5 rounds to steps of 2^-24
    const float shifted = std::bit_cast<float>(size) + 0.5F;
    return static_cast<unsigned short>(sign | (std::bit_cast<unsigned>(shifted) - 0x3f000000U));
  }
  const unsigned rounded = size + 0xfffU + ((size >> 13) & 1U);
  return static_cast<unsigned short>(sign | ((rounded - 0x38000000U) >> 13));
}

inline float half_value(unsigned short bits) {
  const unsigned sign = unsigned(bits & 0x8000U) << 16;
  const unsigned size = bits & 0x7fffU;
  if (size >= 0x7c00U)
    return std::bit_cast<float>(sign | 0x7f800000U | (size & 0x3ffU) << 13);
  const float value
      = size < 0x400U ? float(size) * 0x1p-24F : std::bit_cast<float>((size << 13) + 0x38000000U);
  return sign != 0 ? -value : value;
}

}  // namespace troupe::emulator

struct alignas(2) __half {
  unsigned short __x;

  __half() = default;
  __half(const __half_raw& raw) : __x(raw.x) {}
  __half(float value) : __x(troupe::emulator::half_bits(value)) {}
  operator float() const { return troupe::emulator::half_value(__x); }
  operator __half_raw() const { return {__x}; }
};

struct alignas(4) __half2 {
  __half x, y;
};

using half = __half;
using half2 = __half2;

inline float __half2float(__half value) {
  return float(value);
}
inline __half __float2half(float value) {
  return {value};
}
inline __half __float2half_rn(float value) {
  return {value};
}
inline float2 __half22float2(__half2 pair) {
  return {float(pair.x), float(pair.y)};
}
inline __half2 __float22half2_rn(float2 pair) {
  return {pair.x, pair.y};
}
inline __half2 __floats2half2_rn(float x, float y) {
  return {x, y};
}
inline __half2 __halves2half2(__half x, __half y) {
  return {x, y};
}
inline float __low2float(__half2 pair) {
  return float(pair.x);
}
inline float __high2float(__half2 pair) {
  return float(pair.y);
}
inline __half __low2half(__half2 pair) {
  return pair.x;
}
inline __half __high2half(__half2 pair) {
  return pair.y;
}
inline unsigned short __half_as_ushort(__half value) {
  return value.__x;
}
inline short __half_as_short(__half value) {
  return short(value.__x);
}
inline __half __ushort_as_half(unsigned short bits) {
  return __half_raw{bits};
}

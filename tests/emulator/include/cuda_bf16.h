// __nv_bfloat16: the upper half of a float, rounded to nearest, ties to even. NaN becomes 0x7fff,
// as in the device's conversions.

#pragma once

#include "cuda_runtime.h"

struct __nv_bfloat16_raw {
  unsigned short x;
};

namespace troupe::emulator {

inline unsigned short bf16_bits(float value) {
  const unsigned bits = std::bit_cast<unsigned>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U)
    return 0x7fff;
  return static_cast<unsigned short>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace troupe::emulator

struct alignas(2) __nv_bfloat16 {
  unsigned short __x;

  __nv_bfloat16() = default;
  __nv_bfloat16(const __nv_bfloat16_raw& raw) : __x(raw.x) {}
  __nv_bfloat16(float value) : __x(troupe::emulator::bf16_bits(value)) {}
  operator float() const { return std::bit_cast<float>(unsigned(__x) << 16); }
  operator __nv_bfloat16_raw() const { return {__x}; }
};

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

inline float __bfloat162float(__nv_bfloat16 value) {
  return float(value);
}
inline __nv_bfloat16 __float2bfloat16(float value) {
  return {value};
}
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  return {value};
}
inline float2 __bfloat1622float2(__nv_bfloat162 pair) {
  return {float(pair.x), float(pair.y)};
}
inline __nv_bfloat162 __float22bfloat162_rn(float2 pair) {
  return {pair.x, pair.y};
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {x, y};
}
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) {
  return {x, y};
}
inline float __low2float(__nv_bfloat162 pair) {
  return float(pair.x);
}
inline float __high2float(__nv_bfloat162 pair) {
  return float(pair.y);
}
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 pair) {
  return pair.x;
}
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 pair) {
  return pair.y;
}
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) {
  return value.__x;
}
inline short __bfloat16_as_short(__nv_bfloat16 value) {
  return short(value.__x);
}
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  return __nv_bfloat16_raw{bits};
}

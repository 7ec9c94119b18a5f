// CUDA's arithmetic intrinsics: exact where a device is exact, at least as precise where it
// approximates. In coarse mode (settings.hpp), the functions that kernels use have the largest
// errors that NVIDIA allows: "CUDA C++ Programming Guide", mathematical functions.

#pragma once

#include "emulated/vector_types.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace troupe::emulator {

/// Adds an error of up to `units` in the last place; it depends only on `x`. Zero, infinities and
/// NaN stay exact.
float as_on_device(double exact, float x, int units);
bool is_coarse();

inline float fast_exp(float x) {
  if (!is_coarse())
    return std::exp(x);
  return as_on_device(std::exp2(double(x * 1.44269504F)), x, 2);  // the product is rounded first
}
inline float device_exp2(float x) {
  return is_coarse() ? as_on_device(std::exp2(double(x)), x, 2) : std::exp2(x);
}
inline float device_log2(float x) {
  return is_coarse() ? as_on_device(std::log2(double(x)), x, 1) : std::log2(x);
}
inline float fast_exp10(float x) {
  return std::pow(10.0F, x);
}
inline float fast_log(float x) {
  return std::log(x);
}
inline float fast_log2(float x) {
  return std::log2(x);
}
inline float fast_log10(float x) {
  return std::log10(x);
}
inline float fast_sin(float x) {
  return std::sin(x);
}
inline float fast_cos(float x) {
  return std::cos(x);
}
inline float fast_tan(float x) {
  return std::tan(x);
}
inline float fast_pow(float x, float y) {
  return std::pow(x, y);
}
inline void fast_sincos(float x, float* s, float* c) {
  *s = std::sin(x);
  *c = std::cos(x);
}

/// Clamps to the range of the integer; NaN becomes 0.
template <class Integer>
Integer saturated(double x) {
  if (std::isnan(x))
    return 0;
  constexpr double lo = double(std::numeric_limits<Integer>::min());
  constexpr double hi = double(std::numeric_limits<Integer>::max());
  return Integer(std::clamp(x, lo, hi));
}

}  // namespace troupe::emulator

// Macros, because the C library already declares functions with these names.
#define exp2f(x) troupe::emulator::device_exp2(x)
#define log2f(x) troupe::emulator::device_log2(x)
#define __expf(x) troupe::emulator::fast_exp(x)
#define __exp10f(x) troupe::emulator::fast_exp10(x)
#define __logf(x) troupe::emulator::fast_log(x)
#define __log2f(x) troupe::emulator::fast_log2(x)
#define __log10f(x) troupe::emulator::fast_log10(x)
#define __sinf(x) troupe::emulator::fast_sin(x)
#define __cosf(x) troupe::emulator::fast_cos(x)
#define __tanf(x) troupe::emulator::fast_tan(x)
#define __powf(x, y) troupe::emulator::fast_pow(x, y)
#define __sincosf(x, s, c) troupe::emulator::fast_sincos(x, s, c)

inline float rsqrtf(float x) {
  return troupe::emulator::as_on_device(1.0 / std::sqrt(double(x)), x, 2);
}
inline double rsqrt(double x) {
  return 1.0 / std::sqrt(x);
}
inline float __fdividef(float x, float y) {
  return troupe::emulator::is_coarse() ? troupe::emulator::as_on_device(double(x) / double(y), y, 2)
                                       : x / y;
}
inline float __frsqrt_rn(float x) {
  return float(1.0 / std::sqrt(double(x)));
}
inline float __fsqrt_rn(float x) {
  return std::sqrt(x);
}
inline float __frcp_rn(float x) {
  return 1.0F / x;
}
inline float __fdiv_rn(float x, float y) {
  return x / y;
}
inline float __fadd_rn(float x, float y) {
  return x + y;
}
inline float __fsub_rn(float x, float y) {
  return x - y;
}
inline float __fmul_rn(float x, float y) {
  return x * y;
}
inline float __fmaf_rn(float x, float y, float z) {
  return std::fma(x, y, z);
}
inline double __dadd_rn(double x, double y) {
  return x + y;
}
inline double __dmul_rn(double x, double y) {
  return x * y;
}
inline double __fma_rn(double x, double y, double z) {
  return std::fma(x, y, z);
}
inline float __saturatef(float x) {
  return x > 0.0F ? std::min(x, 1.0F) : 0.0F;
}

inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline int __float_as_int(float x) {
  return std::bit_cast<int>(x);
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
inline float __int_as_float(int x) {
  return std::bit_cast<float>(x);
}
inline long long __double_as_longlong(double x) {
  return std::bit_cast<long long>(x);
}
inline double __longlong_as_double(long long x) {
  return std::bit_cast<double>(x);
}

inline int __float2int_rn(float x) {
  return troupe::emulator::saturated<int>(std::nearbyint(x));
}
inline int __float2int_rz(float x) {
  return troupe::emulator::saturated<int>(std::trunc(x));
}
inline int __float2int_rd(float x) {
  return troupe::emulator::saturated<int>(std::floor(x));
}
inline int __float2int_ru(float x) {
  return troupe::emulator::saturated<int>(std::ceil(x));
}
inline unsigned __float2uint_rn(float x) {
  return troupe::emulator::saturated<unsigned>(std::nearbyint(x));
}
inline unsigned __float2uint_rz(float x) {
  return troupe::emulator::saturated<unsigned>(std::trunc(x));
}
inline float __int2float_rn(int x) {
  return float(x);
}
inline float __uint2float_rn(unsigned x) {
  return float(x);
}
inline float __double2float_rn(double x) {
  return float(x);
}

inline int __mul24(int x, int y) {
  return ((x << 8) >> 8) * ((y << 8) >> 8);
}
inline unsigned __umulhi(unsigned x, unsigned y) {
  return unsigned((std::uint64_t(x) * std::uint64_t(y)) >> 32);
}
inline int __mulhi(int x, int y) {
  return int((std::int64_t(x) * std::int64_t(y)) >> 32);
}
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  __extension__ using wide = unsigned __int128;
  return static_cast<unsigned long long>((wide(x) * wide(y)) >> 64);
}
inline int __popc(unsigned x) {
  return std::popcount(x);
}
inline int __popcll(unsigned long long x) {
  return std::popcount(x);
}
inline int __clz(int x) {
  return std::countl_zero(unsigned(x));
}
inline int __clzll(long long x) {
  return std::countl_zero(static_cast<unsigned long long>(x));
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
inline int __ffsll(long long x) {
  return __builtin_ffsll(x);
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned by) {
  return unsigned(((std::uint64_t(hi) << 32 | lo) << (by & 31U)) >> 32);
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned by) {
  return unsigned((std::uint64_t(hi) << 32 | lo) >> (by & 31U));
}

// Loads and stores with cache hints. As on a device, a misaligned address ends the launch.
namespace troupe::emulator {

[[noreturn]] void misaligned(const volatile void* at, std::size_t alignment);

template <class T>
T* aligned(T* at) {
  if (reinterpret_cast<std::uintptr_t>(at) % alignof(T) != 0)
    misaligned(at, alignof(T));
  return at;
}

}  // namespace troupe::emulator

#define TROUPE_EMULATED_LOAD(name)           \
  template <class T>                         \
  T name(const T* from) {                    \
    return *troupe::emulator::aligned(from); \
  }
#define TROUPE_EMULATED_STORE(name)                        \
  template <class T>                                       \
  void name(T* to, const std::type_identity_t<T>& value) { \
    *troupe::emulator::aligned(to) = value;                \
  }
TROUPE_EMULATED_LOAD(__ldg)
TROUPE_EMULATED_LOAD(__ldca)
TROUPE_EMULATED_LOAD(__ldcg)
TROUPE_EMULATED_LOAD(__ldcs)
TROUPE_EMULATED_LOAD(__ldlu)
TROUPE_EMULATED_STORE(__stwb)
TROUPE_EMULATED_STORE(__stcg)
TROUPE_EMULATED_STORE(__stcs)
TROUPE_EMULATED_STORE(__stwt)
#undef TROUPE_EMULATED_LOAD
#undef TROUPE_EMULATED_STORE

// CUDA has these functions outside of namespaces.
template <class T>
requires std::is_arithmetic_v<T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
requires std::is_arithmetic_v<T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}

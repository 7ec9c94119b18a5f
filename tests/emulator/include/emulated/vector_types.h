// CUDA's vector types, aligned for single-instruction loads, and their make_<type> functions.

#pragma once

#define TROUPE_EMULATED_VECTORS(base, name, align2, align4)          \
  struct name##1 {                                                   \
    base x;                                                          \
  };                                                                 \
  struct alignas(align2) name##2 {                                   \
    base x, y;                                                       \
  };                                                                 \
  struct name##3 {                                                   \
    base x, y, z;                                                    \
  };                                                                 \
  struct alignas(align4) name##4 {                                   \
    base x, y, z, w;                                                 \
  };                                                                 \
  constexpr name##1 make_##name##1(base x) {                         \
    return {x};                                                      \
  }                                                                  \
  constexpr name##2 make_##name##2(base x, base y) {                 \
    return {x, y};                                                   \
  }                                                                  \
  constexpr name##3 make_##name##3(base x, base y, base z) {         \
    return {x, y, z};                                                \
  }                                                                  \
  constexpr name##4 make_##name##4(base x, base y, base z, base w) { \
    return {x, y, z, w};                                             \
  }

TROUPE_EMULATED_VECTORS(signed char, char, 2, 4)
TROUPE_EMULATED_VECTORS(unsigned char, uchar, 2, 4)
TROUPE_EMULATED_VECTORS(short, short, 4, 8)
TROUPE_EMULATED_VECTORS(unsigned short, ushort, 4, 8)
TROUPE_EMULATED_VECTORS(int, int, 8, 16)
TROUPE_EMULATED_VECTORS(unsigned, uint, 8, 16)
TROUPE_EMULATED_VECTORS(long long, longlong, 16, 16)
TROUPE_EMULATED_VECTORS(unsigned long long, ulonglong, 16, 16)
TROUPE_EMULATED_VECTORS(float, float, 8, 16)
TROUPE_EMULATED_VECTORS(double, double, 16, 16)

#undef TROUPE_EMULATED_VECTORS

/// Sizes of grids and blocks; each defaults to 1.
struct dim3 {
  unsigned x, y, z;

  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

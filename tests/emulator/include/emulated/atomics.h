// Atomic operations on integers. Atomics on floats are left out on purpose: their sums depend on
// the order of threads, and Troupe promises the same bits.

#pragma once

#include <cstdint>

#define TROUPE_EMULATED_ATOMICS(type)                                                          \
  inline type atomicAdd(type* to, type by) {                                                   \
    return __atomic_fetch_add(to, by, __ATOMIC_RELAXED);                                       \
  }                                                                                            \
  inline type atomicExch(type* to, type by) {                                                  \
    return __atomic_exchange_n(to, by, __ATOMIC_RELAXED);                                      \
  }                                                                                            \
  inline type atomicOr(type* to, type by) {                                                    \
    return __atomic_fetch_or(to, by, __ATOMIC_RELAXED);                                        \
  }                                                                                            \
  inline type atomicAnd(type* to, type by) {                                                   \
    return __atomic_fetch_and(to, by, __ATOMIC_RELAXED);                                       \
  }                                                                                            \
  inline type atomicCAS(type* to, type expected, type by) {                                    \
    __atomic_compare_exchange_n(to, &expected, by, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); \
    return expected;                                                                           \
  }                                                                                            \
  inline type atomicMax(type* to, type by) {                                                   \
    type old = __atomic_load_n(to, __ATOMIC_RELAXED);                                          \
    while (old < by                                                                            \
           && !__atomic_compare_exchange_n(                                                    \
               to, &old, by, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {                     \
    }                                                                                          \
    return old;                                                                                \
  }                                                                                            \
  inline type atomicMin(type* to, type by) {                                                   \
    type old = __atomic_load_n(to, __ATOMIC_RELAXED);                                          \
    while (by < old                                                                            \
           && !__atomic_compare_exchange_n(                                                    \
               to, &old, by, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {                     \
    }                                                                                          \
    return old;                                                                                \
  }

TROUPE_EMULATED_ATOMICS(int)
TROUPE_EMULATED_ATOMICS(unsigned)
TROUPE_EMULATED_ATOMICS(unsigned long long)
#undef TROUPE_EMULATED_ATOMICS

float atomicAdd(float*, float) = delete;
double atomicAdd(double*, double) = delete;

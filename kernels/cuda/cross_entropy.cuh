// Common parts of the cross-entropy kernels.

#pragma once

#include "kernels/cuda/device.cuh"

#include <limits>

namespace troupe::kernels::cuda::cross_entropy {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float log2_e = 1.44269504088896341F;
constexpr int ahead = 4;  ///< loads in flight per thread
constexpr std::int64_t most_blocks = 1 << 30;

/// e^(x - center). Subtracts first: near 0, where e^x is largest, the difference is exact.
__device__ __forceinline__ float exponential(float x, float center) {
  return exp2f((x - center) * log2_e);
}

/// Number of elements, at most n, before the first 16-byte boundary.
template <class T>
__device__ __forceinline__ int before_vectors(const T* from, int n) {
  const auto past = unsigned(reinterpret_cast<std::uintptr_t>(from) % 16);
  return min(int((16 - past) % 16 / sizeof(T)), n);
}

/// Whether 16-byte boundaries of one array are those of the other.
template <class T>
bool begin_alike(const T* a, const T* b) {
  return (reinterpret_cast<std::uintptr_t>(a) - reinterpret_cast<std::uintptr_t>(b)) % 16 == 0;
}

}  // namespace troupe::kernels::cuda::cross_entropy

// Basics for all kernels: launches, element types, sums over a warp and a block.
//
// nvcc compiles this folder for devices and g++ for the emulated device (tests/emulator), so it
// uses only common features: shared memory is static, and kernels start through `launch`. The order
// of every reduction depends on the shape only.

#pragma once

#include "kernels/cuda/host.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

namespace troupe::kernels::cuda {

// --- host side ---------------------------------------------------------------------------------

/// Enqueues the kernel on the context's queue. Launch errors throw; errors of the kernel itself
/// appear at the next wait.
template <class... Params, class... Args>
void launch(const context& in, dim3 grid, dim3 block, void (*kernel)(Params...), Args&&... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0)
    return;  // CUDA refuses an empty grid
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = queue_of(in);
  const auto status = cudaLaunchKernelEx(&config, kernel, Params(std::forward<Args>(args))...);
  if (status != cudaSuccess)
    refuse_launch(status, grid, block, reinterpret_cast<const void*>(kernel));
}

/// The scratch memory as an array of T. Throws std::logic_error if it is too small.
template <class T>
T* scratch_array(const context& in, std::size_t bytes) {
  if (in.workspace.size() < bytes)
    throw std::logic_error("workspace of " + std::to_string(in.workspace.size())
                           + " bytes, but the operation declared " + std::to_string(bytes));
  return reinterpret_cast<T*>(in.workspace.data());
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

constexpr int processors = 132;  ///< multiprocessors of an H200, for which grids are sized

/// Division of integers below 2^31 by a fixed divisor, as a multiplication and a shift.
///
/// Source: Granlund, Montgomery, "Division by Invariant Integers using Multiplication", 1994.
class divider {
 public:
  /// 1 <= by <= 2^31.
  explicit divider(std::int64_t by) : by_(unsigned(by)) {
    while ((std::int64_t{1} << shift_) < by)
      ++shift_;
    factor_ = unsigned(ceil_div(std::int64_t{1} << (31 + shift_), by));
  }
  __device__ __forceinline__ unsigned quotient(unsigned x) const {
    return __umulhi(2 * x, factor_) >> shift_;
  }
  __device__ __forceinline__ unsigned by() const { return by_; }

 private:
  unsigned by_, factor_ = 0;
  int shift_ = 0;
};

/// Number of blocks for n work items, at most `most`; kernels loop over the rest.
inline unsigned blocks_for(std::int64_t n, std::int64_t most) {
  return unsigned(n < most ? n : most);
}

// --- element types -----------------------------------------------------------------------------

constexpr int warp = 32;

__device__ __forceinline__ float to_float(float x) {
  return x;
}
__device__ __forceinline__ float to_float(bf16 x) {
  return __uint_as_float(unsigned(x.bits) << 16);
}
__device__ __forceinline__ float to_float(f16 x) {
  return __half2float(__ushort_as_half(x.bits));
}

/// Rounded to nearest, ties to even.
template <class T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float x) {
  bf16 out;
  out.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
  return out;
}
template <>
__device__ __forceinline__ f16 from_float<f16>(float x) {
  f16 out;
  out.bits = __half_as_ushort(__float2half_rn(x));
  return out;
}

/// N neighbouring elements, loaded and stored together. 16 bytes are the widest single access;
/// larger packs are several accesses.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) pack {
  T x[N];
};
template <class T>
constexpr int wide = 16 / int(sizeof(T));  ///< elements in 16 bytes

/// Type of one access.
template <int Bytes>
struct access_of;
template <>
struct access_of<2> {
  using type = unsigned short;
};
template <>
struct access_of<4> {
  using type = unsigned;
};
template <>
struct access_of<8> {
  using type = uint2;
};
template <>
struct access_of<16> {
  using type = uint4;
};

// Copies whole words: a structure of small elements would be copied element by element.
template <class T, int N>
__device__ __forceinline__ pack<T, N> load(const T* from) {
  using word = typename access_of<alignof(pack<T, N>)>::type;
  word words[sizeof(pack<T, N>) / sizeof(word)];
#pragma unroll
  for (int i = 0; i < int(sizeof(words) / sizeof(word)); ++i)
    words[i] = reinterpret_cast<const word*>(from)[i];
  pack<T, N> out;
  memcpy(&out, words, sizeof(out));
  return out;
}
template <class T, int N>
__device__ __forceinline__ void store(T* to, const pack<T, N>& x) {
  using word = typename access_of<alignof(pack<T, N>)>::type;
  word words[sizeof(pack<T, N>) / sizeof(word)];
  memcpy(words, &x, sizeof(x));
#pragma unroll
  for (int i = 0; i < int(sizeof(words) / sizeof(word)); ++i)
    reinterpret_cast<word*>(to)[i] = words[i];
}

/// Stores to device memory, never to shared memory: 16 bytes are always one access. (The compiler
/// splits a plain store if it cannot prove the pointer's alignment in a loop.)
template <class T, int N>
__device__ __forceinline__ void store_global(T* to, const pack<T, N>& x) {
  if constexpr (sizeof(x) % 16 != 0) {
    store(to, x);
  } else {
    uint4 words[sizeof(x) / 16];
    memcpy(words, &x, sizeof(x));
#pragma unroll
    for (int i = 0; i < int(sizeof(x) / 16); ++i)
      __stwb(reinterpret_cast<uint4*>(to) + i, words[i]);
  }
}

/// W neighbouring elements as stored in memory, read as floats. They stay packed in whole words:
/// separate 16-bit elements would take a register each.
template <class T, int W>
struct bundle {
  static constexpr bool halves = sizeof(T) == 2 && W % 2 == 0;
  using word = std::conditional_t<halves, unsigned, T>;
  word words[halves ? W / 2 : W];

  __device__ __forceinline__ float operator[](int k) const {
    if constexpr (!halves)
      return to_float(words[k]);
    else if constexpr (std::is_same_v<T, bf16>)
      return __uint_as_float(k % 2 ? words[k / 2] & 0xffff0000U : words[k / 2] << 16);
    else
      return __half2float(
          __ushort_as_half(static_cast<unsigned short>(words[k / 2] >> (k % 2 ? 16 : 0))));
  }
};

template <class T, int W>
__device__ __forceinline__ bundle<T, W> fetch(const T* from) {
  using word = typename bundle<T, W>::word;
  const auto x
      = load<word, int(sizeof(bundle<T, W>) / sizeof(word))>(reinterpret_cast<const word*>(from));
  bundle<T, W> out;
#pragma unroll
  for (int i = 0; i < int(sizeof(out) / sizeof(word)); ++i)
    out.words[i] = x.x[i];
  return out;
}

/// Rounds floats to the stored type.
template <class T, int W>
__device__ __forceinline__ bundle<T, W> rounded(const float (&x)[W]) {
  bundle<T, W> out;
  if constexpr (bundle<T, W>::halves) {
#pragma unroll
    for (int k = 0; k < W; k += 2) {
      if constexpr (std::is_same_v<T, bf16>) {
        const auto two = __floats2bfloat162_rn(x[k], x[k + 1]);
        memcpy(&out.words[k / 2], &two, sizeof(two));
      } else {
        const auto two = __floats2half2_rn(x[k], x[k + 1]);
        memcpy(&out.words[k / 2], &two, sizeof(two));
      }
    }
  } else {
#pragma unroll
    for (int k = 0; k < W; ++k)
      out.words[k] = from_float<T>(x[k]);
  }
  return out;
}

/// Stores a bundle, as store_global does.
template <class T, int W>
__device__ __forceinline__ void put(T* to, const bundle<T, W>& x) {
  using word = typename bundle<T, W>::word;
  pack<word, int(sizeof(bundle<T, W>) / sizeof(word))> out;
#pragma unroll
  for (int i = 0; i < int(sizeof(x) / sizeof(word)); ++i)
    out.x[i] = x.words[i];
  store_global(reinterpret_cast<word*>(to), out);
}
/// Rounds W floats and stores them.
template <class T, int W>
__device__ __forceinline__ void put(T* to, const float (&x)[W]) {
  put(to, rounded<T, W>(x));
}

// --- sums --------------------------------------------------------------------------------------

/// Sum over the warp, in every lane: a fixed tree. All 32 lanes must take part.
template <class T>
__device__ __forceinline__ T warp_sum(T x) {
#pragma unroll
  for (int step = warp / 2; step > 0; step /= 2)
    x += __shfl_xor_sync(0xffffffffU, x, step);
  return x;
}

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int step = warp / 2; step > 0; step /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, step));
  return x;
}

/// Sum over a block of Threads (a multiple of 32), in every thread. All threads must take part; no
/// barrier is needed between two calls.
template <int Threads, class T>
__device__ __forceinline__ T block_sum(T x) {
  constexpr int warps = Threads / warp;
  static_assert(Threads % warp == 0 && warps <= warp);
  x = warp_sum(x);
  if constexpr (warps == 1)
    return x;
  __shared__ T part[warps];
  __syncthreads();  // all threads have read the previous sum
  if (threadIdx.x % warp == 0)
    part[threadIdx.x / warp] = x;
  __syncthreads();
  T sum = part[0];
#pragma unroll
  for (int w = 1; w < warps; ++w)
    sum += part[w];
  return sum;
}

}  // namespace troupe::kernels::cuda

// CUDA's qualifiers and built-in variables.
//
// A block runs on one host thread, so its shared memory is thread-local. When a block begins, the
// shared variables of its kernel hold NaN, and so do those of called functions up to 1 KiB. Larger
// ones of called functions keep the contents of the previous block. Shared memory is always static;
// `extern __shared__` does not compile.

#pragma once

#include "emulated/vector_types.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))

// Values of the current CUDA thread; set when its fiber is resumed.
#define TROUPE_EMULATED_BUILT_IN \
  __attribute__((visibility("default"), tls_model("initial-exec"))) extern constinit thread_local
TROUPE_EMULATED_BUILT_IN uint3 threadIdx;
TROUPE_EMULATED_BUILT_IN uint3 blockIdx;
TROUPE_EMULATED_BUILT_IN dim3 blockDim;
TROUPE_EMULATED_BUILT_IN dim3 gridDim;
#undef TROUPE_EMULATED_BUILT_IN

constexpr int warpSize = 32;

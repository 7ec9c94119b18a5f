// CUDA's qualifiers and built-in variables.
//
// A block runs on one thread of the host, so its shared memory is that thread's own. When a block
// begins, the variables of its kernel are not numbers, and small ones of the functions that it calls
// neither; larger ones of such functions hold what the block before left. Shared memory is always static here;
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

// The current CUDA thread's; set whenever its fiber is resumed.
#define TROUPE_EMULATED_BUILT_IN \
  __attribute__((visibility("default"), tls_model("initial-exec"))) extern constinit thread_local
TROUPE_EMULATED_BUILT_IN uint3 threadIdx;
TROUPE_EMULATED_BUILT_IN uint3 blockIdx;
TROUPE_EMULATED_BUILT_IN dim3 blockDim;
TROUPE_EMULATED_BUILT_IN dim3 gridDim;
#undef TROUPE_EMULATED_BUILT_IN

constexpr int warpSize = 32;

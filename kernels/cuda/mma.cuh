// Tensor core primitives: warp-level products of 16 x 8 x 16, loads of 8 x 8 matrices from shared
// memory, and asynchronous copies to shared memory.
//
// Inline PTX for compute capability 8.0 and later. The emulated device replaces this header by
// tests/emulator/include/kernels/cuda/mma.cuh with the same names.
//
// Registers of a lane, with g = lane / 4 and t = lane % 4. A register holds two neighbouring 16-bit
// elements, the first in its low half:
//
//   left (16 rows, 16 deep)     x[0]: row g, 2t and 2t + 1 deep    x[1]: row g + 8, likewise
//                               x[2], x[3]: those rows, 8 deeper
//   right (16 deep, 8 columns)  y0: 2t and 2t + 1 deep, column g   y1: 8 deeper
//   result (16 rows, 8 columns) c[0], c[1]: row g, columns 2t and 2t + 1   c[2], c[3]: row g + 8
//
// Source: NVIDIA, "Parallel Thread Execution ISA", mma.m16n8k16, ldmatrix, cp.async.

#pragma once

#include "kernels/op/context.hpp"

#include <cuda_runtime.h>

namespace troupe::kernels::cuda {

/// c += left * right with fp32 sums. T: bf16 or f16. All 32 lanes must take part, here and below.
template <class T>
__device__ __forceinline__ void multiply_add(float (&c)[4],
                                             const unsigned (&x)[4],
                                             unsigned y0,
                                             unsigned y1);
template <>
__device__ __forceinline__ void multiply_add<bf16>(float (&c)[4],
                                                   const unsigned (&x)[4],
                                                   unsigned y0,
                                                   unsigned y1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y0), "r"(y1));
}
template <>
__device__ __forceinline__ void multiply_add<f16>(float (&c)[4],
                                                  const unsigned (&x)[4],
                                                  unsigned y0,
                                                  unsigned y1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y0), "r"(y1));
}

__device__ __forceinline__ unsigned shared_address(const void* at) {
  return unsigned(__cvta_generic_to_shared(at));
}

/// Loads four 8 x 8 matrices of 16-bit elements. Lane l passes the address of row l % 8 of matrix l
/// / 8, 16 bytes in shared memory. It receives elements 2t and 2t + 1 of row g of each matrix.
__device__ __forceinline__ void load_matrices(unsigned (&x)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(shared_address(row))
               : "memory");
}
/// Transposed: receives element g of rows 2t and 2t + 1 of each matrix.
__device__ __forceinline__ void load_transposed(unsigned (&x)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(shared_address(row))
               : "memory");
}

/// Asynchronous copies of one thread from device to shared memory. The data is visible to this
/// thread after `wait`, and to other threads after a barrier. If `there` is false, it writes zeros
/// and reads nothing. Both addresses must be aligned to the size of the copy.
class async_copies {
 public:
  __device__ __forceinline__ void copy_16_bytes(void* to, const void* from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(__cvta_generic_to_global(from)),
                 "r"(there ? 16 : 0)
                 : "memory");
  }
  __device__ __forceinline__ void copy_4_bytes(void* to, const void* from, bool there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)),
                 "l"(__cvta_generic_to_global(from)),
                 "r"(there ? 4 : 0)
                 : "memory");
  }
  __device__ __forceinline__ void wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }
};

}  // namespace troupe::kernels::cuda

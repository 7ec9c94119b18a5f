// What the host's side of this folder stands on: sources that g++ compiles, and device.cuh.

#pragma once

#include "kernels/backend/device_failure.hpp"
#include "kernels/op/context.hpp"

#include <cuda_runtime.h>

#include <string>

namespace troupe::kernels::cuda {

/// Throws device_failure unless all went well; `what` says what was tried.
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw device_failure(std::string(what) + ": " + cudaGetErrorName(status) + ", "
                         + cudaGetErrorString(status));
}

/// Of a kernel that is not on the queue: throws device_failure with its grid, what it needs, what
/// CUDA said, and what to do. Whose kernel it is adds library.cpp.
[[noreturn]] void refuse_launch(cudaError_t status, dim3 grid, dim3 block, const void* kernel);

inline cudaStream_t queue_of(const context& in) {
  return static_cast<cudaStream_t>(in.queue);
}

/// Whether 16-byte accesses may be used on all of these pointers (null counts as aligned).
template <class... Pointers>
bool all_aligned(Pointers... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace troupe::kernels::cuda

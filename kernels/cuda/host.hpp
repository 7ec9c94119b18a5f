// Host-side basics for the .cpp files (compiled by g++) and for device.cuh.

#pragma once

#include "kernels/backend/device_failure.hpp"
#include "kernels/op/context.hpp"

#include <cuda_runtime.h>

#include <string>

namespace troupe::kernels::cuda {

/// Throws device_failure on an error; `what` names the operation that failed.
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw device_failure(std::string(what) + ": " + cudaGetErrorName(status) + ", "
                         + cudaGetErrorString(status));
}

/// Reports a failed kernel launch: throws device_failure with the grid, the kernel's resources, the
/// CUDA error and advice. library.cpp adds the name of the operation.
[[noreturn]] void refuse_launch(cudaError_t status, dim3 grid, dim3 block, const void* kernel);

inline cudaStream_t queue_of(const context& in) {
  return static_cast<cudaStream_t>(in.queue);
}

/// Whether all pointers allow 16-byte accesses; null counts as aligned.
template <class... Pointers>
bool all_aligned(Pointers... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace troupe::kernels::cuda

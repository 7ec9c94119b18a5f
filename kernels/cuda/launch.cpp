#include "kernels/cuda/host.hpp"

namespace troupe::kernels::cuda {

namespace {

std::string extents(dim3 x) {
  return std::to_string(x.x) + " x " + std::to_string(x.y) + " x " + std::to_string(x.z);
}

/// Resources of a kernel, if they can still be queried.
std::string needs_of(const void* kernel) {
  cudaFuncAttributes needs = {};
  if (cudaFuncGetAttributes(&needs, kernel) != cudaSuccess)
    return "";
  return ", of " + std::to_string(needs.numRegs) + " registers each and "
         + std::to_string(needs.sharedSizeBytes) + " bytes of shared memory, at most "
         + std::to_string(needs.maxThreadsPerBlock) + " threads";
}

const char* advice(cudaError_t status) {
  switch (status) {
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
      return "the plug-in has no code for this device: build it with "
             "-DTROUPE_CUDA_ARCHITECTURES=<its compute capability>-real";
    case cudaErrorMemoryAllocation:
      return "the driver needs memory of its own for a kernel: give a smaller `batch.micro`";
    case cudaErrorInvalidConfiguration:
    case cudaErrorLaunchOutOfResources:
    case cudaErrorInvalidValue:
      return "no device supports this launch: internal error of troupe; please report this line; "
             "other extents may work";
    default:
      return "if an earlier kernel failed, CUDA_LAUNCH_BLOCKING=1 in the environment makes the "
             "launch of that one say so";
  }
}

}  // namespace

void refuse_launch(cudaError_t status, dim3 grid, dim3 block, const void* kernel) {
  const auto needs = needs_of(kernel);
  cudaGetLastError();  // clears the error, which is reported here
  throw device_failure("launching a kernel of " + extents(grid) + " blocks of " + extents(block)
                       + " threads" + needs + ": " + cudaGetErrorName(status) + ", "
                       + cudaGetErrorString(status) + "; " + advice(status));
}

}  // namespace troupe::kernels::cuda

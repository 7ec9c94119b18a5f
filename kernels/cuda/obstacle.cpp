// Why this machine cannot compute on a device, where it cannot.

#include "kernels/backend/plugin.hpp"

#include <cuda_runtime.h>

#include <string>

namespace troupe::kernels::cuda {

namespace {

/// 12080 is CUDA 12.8.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// The oldest devices that the plug-in has code for: see TROUPE_CUDA_ARCHITECTURES.
constexpr int oldest_major = 8;

std::string obstacle() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return "no NVIDIA driver is installed (libcuda.so.1 was not found)";
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  if (driver / 1000 < runtime / 1000)
    return "the NVIDIA driver serves CUDA up to " + version_text(driver)
           + ", and this build needs CUDA " + version_text(runtime / 1000 * 1000)
           + ": install a newer driver";
  int devices = 0;
  const auto status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess)
    return std::string("the driver finds no device: ") + cudaGetErrorName(status) + ", "
           + cudaGetErrorString(status);
  if (devices == 0)
    return "the driver finds no device";
  for (int d = 0; d < devices; ++d) {
    cudaDeviceProp x = {};
    if (cudaGetDeviceProperties(&x, d) == cudaSuccess && x.major >= oldest_major)
      return "";
  }
  return "no device is of compute capability " + std::to_string(oldest_major)
         + ".0 (A100) or later, which this build has code for";
}

}  // namespace

/// Empty: there is none. Asked once: drivers do not come and go.
TROUPE_PLUGIN_FUNCTION const char* troupe_cuda_obstacle() {
  static const std::string found = obstacle();
  return found.c_str();
}

}  // namespace troupe::kernels::cuda

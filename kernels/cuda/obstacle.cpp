// Checks whether this machine has a usable CUDA device, and says why not.

#include "kernels/backend/plugin.hpp"
#include "kernels/cuda/architecture.hpp"

#include <cuda_runtime.h>

#include <string>

namespace troupe::kernels::cuda {

namespace {

/// "12.8" for 12080.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

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
  std::string last;
  for (int d = 0; d < devices; ++d) {
    int major = 0, minor = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, d);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, d);
    last = architecture_obstacle(major, minor);
    if (last.empty())
      return "";
  }
  return devices == 1 ? "the only device " + last
                      : "there is no device that this build has code for; the last " + last;
}

}  // namespace

/// Empty if there is no obstacle. Checked once per process.
TROUPE_PLUGIN_FUNCTION const char* troupe_cuda_obstacle() {
  static const std::string found = obstacle();
  return found.c_str();
}

}  // namespace troupe::kernels::cuda

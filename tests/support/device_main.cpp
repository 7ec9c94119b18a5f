// Main program of the kernel tests on a real device. Exit code 77 (skipped) without a device.

#include <catch2/catch_session.hpp>
#include <cuda_runtime.h>

#include <cstdio>

int main(int argc, char** argv) {
  int devices = 0;
  const auto status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    std::printf("SKIPPED: there is no CUDA device here (%s)\n", cudaGetErrorString(status));
    return 77;
  }
  cudaDeviceProp device = {};
  if (cudaGetDeviceProperties(&device, 0) == cudaSuccess)
    std::printf("on %s, compute capability %d.%d\n", device.name, device.major, device.minor);
  return Catch::Session().run(argc, argv);
}

// Runtime calls that describe the devices. Figures that code may depend on are those of an H200;
// the number of multiprocessors is a setting.

#include "tests/emulator/cache.hpp"
#include "tests/emulator/memory.hpp"
#include "tests/emulator/settings.hpp"
#include "tests/emulator/streams.hpp"
#include "tests/emulator/symbols.hpp"

#include <cstdio>
#include <map>
#include <set>

namespace troupe::emulator {
namespace {

bool exists(int device) {
  return device >= 0 && device < machine().devices;
}

cudaDeviceProp properties_of(int device) {
  cudaDeviceProp is = {};
  std::snprintf(is.name, sizeof is.name, "Troupe emulated device");
  std::snprintf(is.uuid.bytes, sizeof is.uuid.bytes, "emulated-%d", number_on_machine(device));
  is.totalGlobalMem = machine().memory;
  is.sharedMemPerBlock = 48 << 10;
  is.sharedMemPerMultiprocessor = 228 << 10;
  is.sharedMemPerBlockOptin = 227 << 10;
  is.totalConstMem = 64 << 10;
  is.regsPerBlock = is.regsPerMultiprocessor = 65536;
  is.warpSize = 32;
  is.maxThreadsPerBlock = 1024;
  is.maxThreadsDim[0] = is.maxThreadsDim[1] = 1024;
  is.maxThreadsDim[2] = 64;
  is.maxGridSize[0] = 0x7fffffff;
  is.maxGridSize[1] = is.maxGridSize[2] = 65535;
  is.maxThreadsPerMultiProcessor = 2048;
  is.maxBlocksPerMultiProcessor = 32;
  is.major = architecture_of(device) / 10;
  is.minor = architecture_of(device) % 10;
  is.multiProcessorCount = machine().processors;
  is.concurrentKernels = 1;
  is.asyncEngineCount = 3;
  is.unifiedAddressing = 1;
  is.pciBusID = device + 1;
  is.memoryBusWidth = 6144;
  is.l2CacheSize = int(cache_bytes);
  is.memoryPoolsSupported = 1;
  return is;
}

/// -1 for an unknown attribute.
int attribute_of(const cudaDeviceProp& is, cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      return is.maxThreadsPerBlock;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return int(is.sharedMemPerBlock);
    case cudaDevAttrWarpSize:
      return is.warpSize;
    case cudaDevAttrClockRate:
      return 1980000;
    case cudaDevAttrMultiProcessorCount:
      return is.multiProcessorCount;
    case cudaDevAttrIntegrated:
      return is.integrated;
    case cudaDevAttrMemoryClockRate:
      return 3201000;
    case cudaDevAttrGlobalMemoryBusWidth:
      return is.memoryBusWidth;
    case cudaDevAttrL2CacheSize:
      return is.l2CacheSize;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return is.maxThreadsPerMultiProcessor;
    case cudaDevAttrUnifiedAddressing:
      return is.unifiedAddressing;
    case cudaDevAttrComputeCapabilityMajor:
      return is.major;
    case cudaDevAttrComputeCapabilityMinor:
      return is.minor;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return int(is.sharedMemPerMultiprocessor);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return int(is.sharedMemPerBlockOptin);
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return is.maxBlocksPerMultiProcessor;
    case cudaDevAttrMemoryPoolsSupported:
      return is.memoryPoolsSupported;
  }
  return -1;
}

struct peer_list {
  std::mutex mutex;
  std::set<std::pair<int, int>> enabled;
};

peer_list& peers() {
  static auto* const list = new peer_list;
  return *list;
}

constinit thread_local unsigned device_flags = cudaDeviceScheduleAuto;

}  // namespace
}  // namespace troupe::emulator

using namespace troupe::emulator;

extern "C" {

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return runtime_call("cudaGetDeviceProperties", [&] {
    if (!exists(device))
      return cudaErrorInvalidDevice;
    *properties = properties_of(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return runtime_call("cudaDeviceGetAttribute", [&] {
    if (!exists(device))
      return cudaErrorInvalidDevice;
    *value = attribute_of(properties_of(device), attribute);
    return *value < 0 ? cudaErrorInvalidValue : cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return runtime_call("cudaDeviceGetPCIBusId", [&] {
    if (!exists(device))
      return cudaErrorInvalidDevice;
    std::snprintf(id, std::size_t(length), "0000:%02x:00.0", unsigned(device + 1));
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return runtime_call("cudaDeviceGetStreamPriorityRange", [&] {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return runtime_call("cudaInitDevice",
                      [&] { return exists(device) ? cudaSuccess : cudaErrorInvalidDevice; });
}

cudaError_t cudaSetDeviceFlags(unsigned flags) {
  return runtime_call("cudaSetDeviceFlags", [&] {
    device_flags = flags;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  return runtime_call("cudaGetDeviceFlags", [&] {
    *flags = device_flags;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceReset() {
  const int device = current_device();
  synchronize_device(device);
  free_all_of(device);
  mend_device(device);
  cudaGetLastError();
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return runtime_call("cudaDeviceCanAccessPeer", [&] {
    if (!exists(device) || !exists(peer))
      return cudaErrorInvalidDevice;
    *can = device != peer;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return runtime_call("cudaDeviceEnablePeerAccess", [&] {
    if (!exists(peer) || peer == current_device())
      return cudaErrorInvalidDevice;
    if (flags != 0)
      return cudaErrorInvalidValue;
    const std::lock_guard lock(peers().mutex);
    return peers().enabled.emplace(current_device(), peer).second
               ? cudaSuccess
               : cudaErrorPeerAccessAlreadyEnabled;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return runtime_call("cudaDeviceDisablePeerAccess", [&] {
    const std::lock_guard lock(peers().mutex);
    return peers().enabled.erase({current_device(), peer}) == 1 ? cudaSuccess
                                                                : cudaErrorPeerAccessNotEnabled;
  });
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  return runtime_call("cudaFuncSetAttribute", [&] {
    if (kernel == nullptr)
      return cudaErrorInvalidDeviceFunction;
    const int most = attribute == cudaFuncAttributeMaxDynamicSharedMemorySize ? 227 << 10 : 100;
    return value < -1 || value > most ? cudaErrorInvalidValue : cudaSuccess;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  return runtime_call("cudaFuncGetAttributes", [&] {
    if (kernel == nullptr)
      return cudaErrorInvalidDeviceFunction;
    *attributes = {.sharedSizeBytes = symbols_of(kernel).shared_bytes,
                   .maxThreadsPerBlock = 1024,
                   .numRegs = 32};
    attributes->ptxVersion = attributes->binaryVersion = architecture_of(current_device());
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                          const void* kernel,
                                                          int threads,
                                                          std::size_t) {
  return runtime_call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", [&] {
    if (kernel == nullptr || threads < 1)
      return cudaErrorInvalidValue;
    *blocks = threads > 1024 ? 0 : std::min(32, 2048 / threads);
    return cudaSuccess;
  });
}

}  // extern "C"

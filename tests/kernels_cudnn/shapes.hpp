// Device descriptions and attention shapes for tests without a device.

#pragma once

#include "kernels/op/attention.hpp"

namespace troupe::tests {

/// Device properties in cuDNN's format, with public figures of an H200.
inline constexpr const char* h200 = R"({
  "deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
  "multiProcessorCount": 132, "warpSize": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024, "l2CacheSize": 62914560, "totalGlobalMem": 150754820096,
  "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "memoryBusWidth": 6144,
  "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1})";

/// Device properties of an A100.
inline constexpr const char* a100 = R"({
  "deviceName": "NVIDIA A100-SXM4-80GB", "deviceVer": 800, "driverVer": 13000, "cudaDeviceId": 0,
  "multiProcessorCount": 108, "warpSize": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 166912,
  "reservedSharedMemoryPerBlock": 1024, "l2CacheSize": 41943040, "totalGlobalMem": 85100000000,
  "smClockRateKHz": 1410000, "memClockRateKHz": 1593000, "memoryBusWidth": 5120,
  "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1})";

struct sizes {
  std::int64_t S, H, G, T, D;
  bool fused = true;
  bool causal = true;
  std::int32_t window = -1;
};

/// Layout: [q .. q k v] per group if fused, otherwise three matrices.
inline kernels::attention_shape shape_of(const sizes& x) {
  const std::int64_t per_group = x.H / x.G;
  const std::int64_t query_group = (x.fused ? per_group + 2 : per_group) * x.D;
  const std::int64_t key_group = x.fused ? query_group : x.D;
  return {.S = x.S,
          .H = x.H,
          .G = x.G,
          .D = x.D,
          .Dv = x.D,
          .query_row = x.G * query_group,
          .query_group = query_group,
          .key_row = x.G * key_group,
          .key_group = key_group,
          .value_row = x.G * key_group,
          .value_group = key_group,
          .scale = 0.125f,
          .causal = x.causal,
          .window = x.window,
          .query_rows = x.S * x.T,
          .key_rows = x.S * x.T,
          .longest_query = x.T,
          .longest_key = x.T,
          .uniform = true};
}

}  // namespace troupe::tests

// Reads power, clock, utilisation, temperature and memory of NVIDIA GPUs through NVML
// (https://docs.nvidia.com/deploy/nvml-api).
//
// NVML comes with the driver. It is loaded at run time by dlopen and dlsym, because the build has
// no NVML headers. Missing hardware, libraries or functions give missing values, not errors.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// One measurement of a GPU. An empty value: the driver does not report it.
struct gpu_reading {
  int device = 0;  ///< CUDA device number in this process
  std::string name;
  std::optional<double> power_w, clock_mhz, temperature_c;  ///< clock: of the multiprocessors (SM)
  /// Share of NVML's last sample period in which a kernel ran, 0 to 1.
  std::optional<double> utilisation;
  /// Memory in use by all processes, and memory of the device.
  std::optional<std::uint64_t> memory_bytes, memory_total_bytes;
};

/// Reads the GPUs on a background thread, because a call of the driver may hang. The destructor
/// does not wait for that thread. Thread-safe.
class gpu_meter {
 public:
  /// `devices`: CUDA device numbers in this process. `nvml`, `cuda`: library names (for tests).
  explicit gpu_meter(const std::vector<int>& devices,
                     const char* nvml = "libnvidia-ml.so.1",
                     const char* cuda = "libcuda.so.1");
  ~gpu_meter();
  gpu_meter(const gpu_meter&) = delete;
  gpu_meter& operator=(const gpu_meter&) = delete;

  /// Returns the newest readings without waiting, and requests new ones. Empty until the first
  /// readings are complete, and if NVML finds none of the devices.
  std::vector<gpu_reading> read() const;

 private:
  struct library;
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace troupe::runtime

// Power, clocks, utilisation, temperature and memory of NVIDIA GPUs, by NVML
// (https://docs.nvidia.com/deploy/nvml-api). The library comes with the driver and is opened at run
// time; its functions are found by name, because the build has no headers of it.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Empty members: the device has no such counter.
struct gpu_reading {
  int device = 0;  ///< as CUDA counts them in this process
  std::string name;
  std::optional<double> power_w, clock_mhz, temperature_c;  ///< clock of the multiprocessors
  std::optional<double> utilisation;  ///< share of the last sample period with a kernel, 0 to 1
  std::optional<std::uint64_t> memory_bytes,
      memory_total_bytes;  ///< of all processes; in use, total
};

/// Values only: missing hardware and libraries never throw. Any thread. A thread of its own reads
/// the devices, because a driver may hang; it is left behind then.
class gpu_meter {
 public:
  /// `devices`: as CUDA counts them in this process. The names of the libraries are for tests.
  explicit gpu_meter(const std::vector<int>& devices,
                     const char* nvml = "libnvidia-ml.so.1",
                     const char* cuda = "libcuda.so.1");
  ~gpu_meter();
  gpu_meter(const gpu_meter&) = delete;
  gpu_meter& operator=(const gpu_meter&) = delete;

  /// Returns the newest readings at once, and asks for new ones. Empty before the first ones, and
  /// without devices that NVML knows.
  std::vector<gpu_reading> read() const;

 private:
  struct library;
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace troupe::runtime

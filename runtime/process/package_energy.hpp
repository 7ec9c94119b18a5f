// Energy of the CPU packages of this host, by their RAPL counters (powercap, /sys/class/powercap).

#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <vector>

namespace troupe::runtime {

/// Adds up the counters, which overflow after hours. Any thread.
class package_energy {
 public:
  /// `zones`: a folder as /sys/class/powercap.
  explicit package_energy(const std::filesystem::path& zones = "/sys/class/powercap");

  /// Joules of all packages since the constructor. Call it at least once an hour. None if the host
  /// has no such counters, or only root may read them.
  std::optional<double> joules();

 private:
  struct package {
    std::filesystem::path counter;
    std::uint64_t range_uj = 0;  ///< the counter wraps here; 0: unknown
    std::uint64_t last_uj = 0;
  };

  std::mutex mutex_;
  std::vector<package> packages_;
  double used_ = 0;  ///< joules
};

}  // namespace troupe::runtime

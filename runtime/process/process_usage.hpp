// Time and memory that this process has used. Linux: getrusage(2), proc(5), powercap.

#pragma once

#include <cstdint>
#include <optional>

namespace troupe::runtime {

struct process_usage {
  double up_s = 0;   ///< since its start
  double cpu_s = 0;  ///< of all its threads, user and system
  std::uint64_t resident_bytes = 0, peak_resident_bytes = 0;
};
/// A few system calls. Any thread.
process_usage usage_of_this_process();

/// Energy that the CPU packages have used, in joules, by a counter that overflows after hours
/// (RAPL, /sys/class/powercap). Empty where the machine does not tell, or only root may read it.
/// Any thread.
std::optional<double> package_energy_j();

}  // namespace troupe::runtime

// Time, memory and energy used by this process and its host. Sources: getrusage(2), proc(5) and
// powercap of Linux.

#pragma once

#include <cstdint>
#include <optional>

namespace troupe::runtime {

struct process_usage {
  double up_s = 0;   ///< since the start of the process
  double cpu_s = 0;  ///< of all threads, user and system
  std::uint64_t resident_bytes = 0, peak_resident_bytes = 0;
};
/// Costs a few system calls. Thread-safe.
process_usage usage_of_this_process();

/// Energy used by the CPU packages, in joules (RAPL, /sys/class/powercap). Only differences have a
/// meaning, and the counter overflows after some hours. Empty if the host has no such counter or
/// this user may not read it. Thread-safe.
std::optional<double> package_energy_j();

}  // namespace troupe::runtime

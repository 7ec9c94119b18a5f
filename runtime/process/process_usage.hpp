// Time and memory used by this process. Sources: getrusage(2) and proc(5).

#pragma once

#include <cstdint>

namespace troupe::runtime {

struct process_usage {
  double up_s = 0;   ///< since the start of the process
  double cpu_s = 0;  ///< of all threads, user and system
  std::uint64_t resident_bytes = 0, peak_resident_bytes = 0;
};
/// Costs a few system calls. Thread-safe.
process_usage usage_of_this_process();

}  // namespace troupe::runtime

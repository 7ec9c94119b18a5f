#include "runtime/process/process_usage.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

namespace troupe::runtime {
namespace {

const auto began = std::chrono::steady_clock::now();

double seconds(const timeval& x) {
  return double(x.tv_sec) + double(x.tv_usec) / 1e6;
}

}  // namespace

process_usage usage_of_this_process() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  std::uint64_t all = 0, resident = 0;  // pages
  std::ifstream("/proc/self/statm") >> all >> resident;
  resident *= std::uint64_t(::sysconf(_SC_PAGESIZE));
  return {
      .up_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(),
      .cpu_s = seconds(used.ru_utime) + seconds(used.ru_stime),
      .resident_bytes = resident,
      // Linux counts both inexactly: proc(5), /proc/PID/statm.
      .peak_resident_bytes = std::max(std::uint64_t(used.ru_maxrss) * 1024, resident),
  };
}

}  // namespace troupe::runtime

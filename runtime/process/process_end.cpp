#include "runtime/process/process_end.hpp"

#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <sstream>

namespace troupe::runtime {
namespace {

/// Value of `wanted` in a file of "name count" lines; 0 when there is none.
std::uint64_t counted(const std::filesystem::path& file, const std::string& wanted) {
  std::ifstream in(file);
  std::string name;
  for (std::uint64_t count = 0; in >> name >> count;)
    if (name == wanted)
      return count;
  return 0;
}

}  // namespace

process_end process_end_of(const siginfo_t& x) {
  if (x.si_code == CLD_EXITED)
    return {.exit_code = x.si_status};
  return {.exit_code = {}, .signal = x.si_status, .core = x.si_code == CLD_DUMPED};
}

std::string signal_name(int number) {
  const char* const name = ::sigabbrev_np(number);
  return name == nullptr ? fmt::format("signal {}", number) : fmt::format("SIG{}", name);
}

std::string text_of(const process_end& x) {
  if (x.exit_code)
    return fmt::format("exit code {}", *x.exit_code);
  if (x.unseen)
    return "its end was not seen by a parent";
  return fmt::format("killed by {}{}{}",
                     signal_name(x.signal),
                     x.core ? ", core dumped" : "",
                     x.out_of_memory ? ", probably out of memory" : "");
}

std::uint64_t out_of_memory_kills(const std::filesystem::path& root) {
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    std::istringstream in(line);
    std::string number, controllers, path;
    std::getline(std::getline(std::getline(in, number, ':'), controllers, ':'), path);
    const auto below = std::filesystem::path(path).relative_path();
    const auto here = root / "sys/fs/cgroup";
    if (controllers.empty())  // version 2: the count includes groups below
      if (const auto seen = counted(here / below / "memory.events", "oom_kill"))
        return seen;
    if (controllers.find("memory") != std::string::npos)
      if (const auto seen = counted(here / "memory" / below / "memory.oom_control", "oom_kill"))
        return seen;
  }
  // In a container the path may be that of the host; the container's own group is then the root.
  return counted(root / "sys/fs/cgroup/memory.events", "oom_kill");
}

}  // namespace troupe::runtime

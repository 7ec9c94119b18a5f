// Numbers of a run's processes on data planes, and the names that logs, errors and viewers show.

#pragma once

#include <cstdint>
#include <string>

namespace troupe::runtime {

/// Number of a process on data planes: unique in a run and never reused. `process`: its place in
/// the job; -1: the supervisor's process.
constexpr std::uint64_t process_key(int process, std::uint32_t incarnation) {
  return std::uint64_t(process + 2) << 32 | incarnation;
}
/// Inverse of process_key.
constexpr int process_of_key(std::uint64_t key) {
  return int(std::uint32_t(key >> 32) - 2U);
}
constexpr std::uint32_t incarnation_of_key(std::uint64_t key) {
  return std::uint32_t(key);
}

/// "node-1", as in the run's folder. -1: "supervisor".
std::string name_of_process(int process);
/// The same by the key. "process 7" for a number outside of a run.
std::string name_by_process_key(std::uint64_t key);

}  // namespace troupe::runtime

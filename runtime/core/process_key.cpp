#include "runtime/core/process_key.hpp"

#include <fmt/format.h>

namespace troupe::runtime {

std::string name_of_process(int process) {
  return process == -1 ? std::string("supervisor") : fmt::format("node-{}", process);
}

std::string name_by_process_key(std::uint64_t key) {
  const int process = process_of_key(key);
  return process < -1 ? fmt::format("process {}", key) : name_of_process(process);
}

}  // namespace troupe::runtime

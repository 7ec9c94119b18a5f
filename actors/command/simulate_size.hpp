// The part of `troupe simulate` that measures clusters of many workers (docs/scale.md).

#pragma once

#include "actors/command/command_line.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::command {

struct size_flags {
  std::vector<int> workers;
  std::optional<std::int64_t> processes, hosts, steps;
  std::optional<std::string> kill;
  bool json = false;

  /// Flags that need --workers.
  bool are_given() const { return processes || hosts || steps || kill || json; }
};

/// `flags` outlives the command line.
void add_size(command_line& to, size_flags& flags);

/// Throws input_error.
int simulate_size(const size_flags& flags);

}  // namespace troupe::command

// Control groups: what a container or a service manager leaves a process.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace troupe::runtime {

struct control_group_limits {
  std::optional<double> processors;    ///< of time, e.g. 1.5
  std::optional<std::int64_t> memory;  ///< bytes
  std::int64_t memory_used = 0;        ///< by everybody in the group whose limit that is
};

/// The tightest limits of the process's group and all groups above it, of version 2 or 1. What
/// cannot be read limits nothing.
///
/// Linux kernel: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/.
control_group_limits read_control_groups(const std::filesystem::path& root);

}  // namespace troupe::runtime

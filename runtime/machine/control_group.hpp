// Control groups (cgroups): limits of a container or a service manager on a process.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace troupe::runtime {

struct control_group_limits {
  std::optional<double> processors;    ///< processor time, e.g. 1.5
  std::optional<std::int64_t> memory;  ///< bytes
  std::int64_t memory_used = 0;        ///< by all processes of the limiting group
};

/// The tightest limits of the process's group and its ancestors, for cgroup version 2 or 1.
/// Unreadable files count as no limit.
///
/// Source: Linux kernel, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/.
control_group_limits read_control_groups(const std::filesystem::path& root);

}  // namespace troupe::runtime

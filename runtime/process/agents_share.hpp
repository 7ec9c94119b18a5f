// A share in a host's part of a run's folder. Several agents of one run may exist on a host one
// after the other, each with a guard that outlives it. The last of them removes what all of them
// use.

#pragma once

#include "runtime/process/descriptor.hpp"
#include "runtime/process/run_folder.hpp"

#include <filesystem>
#include <functional>

namespace troupe::runtime {

/// Covers the agent's socket and entry, and the run's shared memory. Belongs to this process and
/// its forks; ends with the last of them. A share is a file lock in `processes/`.
class agents_share {
 public:
  /// Waits up to 5 s while another process removes an earlier agent's files. Throws io_error.
  explicit agents_share(const run_folder& of);

  /// Gives the share up. When no other share exists, calls `remove`; no process gets a share
  /// meanwhile.
  void end(const std::function<void()>& remove);

 private:
  bool is_current() const;

  const std::filesystem::path file_;
  descriptor lock_;
};

}  // namespace troupe::runtime

// Several agents of one run may be on a host one after the other, each with a guard that outlives
// it: who of them removes what all of them use.

#pragma once

#include "runtime/process/descriptor.hpp"
#include "runtime/process/run_folder.hpp"

#include <filesystem>
#include <functional>

namespace troupe::runtime {

/// A share in a host's part of a run's folder: its agent's socket and entry, and the run's shared
/// memory. Of this process and those that it forks; it ends with the last of them. Shares are locks
/// of a file in `processes/`.
class agents_share {
 public:
  /// Waits while somebody removes what an agent before has left, some seconds at most. Throws
  /// io_error.
  explicit agents_share(const run_folder& of);

  /// Gives it up for good. Where nobody else has one, `remove` is called, and nobody gets one
  /// meanwhile.
  void end(const std::function<void()>& remove);

 private:
  bool is_current() const;

  const std::filesystem::path file_;
  descriptor lock_;
};

}  // namespace troupe::runtime

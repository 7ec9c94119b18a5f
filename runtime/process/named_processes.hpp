// The processes that a host agent started or adopted, in memory that its guard shares. They may
// outlive the agent; other orphans are killed.

#pragma once

#include "runtime/process/process_id.hpp"

#include <cstddef>
#include <vector>

namespace troupe::runtime {

/// Memory shared with forked processes. One process writes; another may read at any time, also
/// after the writer was killed in the middle of a change.
class named_processes {
 public:
  /// Throws io_error.
  explicit named_processes(std::size_t most);
  ~named_processes();
  named_processes(const named_processes&) = delete;
  named_processes& operator=(const named_processes&) = delete;

  /// Throws io_error when the list is full.
  void add(const process_id& x);
  void remove(const process_id& x);

  std::vector<process_id> all() const;
  bool has(pid_t pid) const;

 private:
  struct slot;

  const std::size_t most_;
  slot* const slots_;
};

}  // namespace troupe::runtime

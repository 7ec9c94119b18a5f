// Whom a host agent has started or adopted, where its guard sees it, too: they may outlive the
// agent, and orphans of theirs that nobody has a name for do not.

#pragma once

#include "runtime/process/process_id.hpp"

#include <cstddef>
#include <vector>

namespace troupe::runtime {

/// Memory that a process shares with those that it forks. One of them adds and removes; the other
/// reads, also when that one was killed meanwhile, wherever it was.
class named_processes {
 public:
  /// Throws io_error.
  explicit named_processes(std::size_t most);
  ~named_processes();
  named_processes(const named_processes&) = delete;
  named_processes& operator=(const named_processes&) = delete;

  /// Throws io_error: there are too many.
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

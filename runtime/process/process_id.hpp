// Identity of a process, safe against reused pids.
//
// Linux: proc(5), /proc/PID/stat; pidfd_open(2).

#pragma once

#include "runtime/process/descriptor.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace troupe::runtime {

/// A process of this host. The start time tells it from a later process with the same pid.
struct process_id {
  pid_t pid = 0;
  std::uint64_t start_time = 0;  ///< clock ticks since boot: field 22 of /proc/PID/stat
  bool operator==(const process_id&) const = default;
};

/// The kernel's facts about a process, also a zombie.
struct process_facts {
  process_id id;
  char state = '?';  ///< 'R', 'S', 'T', 'Z', ...
  pid_t parent = 0, group = 0;
};

/// Empty if there is no such process.
std::optional<process_facts> look_at_process(pid_t pid);

/// Parses /proc/PID/stat; empty if the text is malformed. The name in it may contain any byte.
std::optional<process_facts> read_process_facts(const std::string& stat);

process_id this_process();

/// False for a zombie.
bool is_running(const process_id& x);

/// All children of `parent`, including zombies.
std::vector<process_facts> children_of(pid_t parent);

/// Kills what is left of the process group that `leader` leads or led. A later group with the same
/// number is not touched.
void kill_group(const process_id& leader);

/// The process's command line; empty: it is gone.
std::vector<std::string> command_of(pid_t pid);

std::string host_name();

/// Identifies this boot of this machine: its processes have one steady clock. 0: unknown.
std::uint64_t steady_clock_of_machine();

/// A handle of a running process of any parent. A signal never reaches a later process with the
/// same pid. One thread.
class running_process {
 public:
  /// Empty if it does not run. Throws io_error.
  static std::optional<running_process> find(const process_id& x);
  /// Like `find`, also for a zombie: its first thread has ended, other threads may still run.
  /// `wait` waits for all of them. Empty if the process is gone.
  static std::optional<running_process> find_also_ended(const process_id& x);

  /// Returns false when the process has ended. Throws io_error.
  bool signal(int number) const;
  /// Returns true when the process has ended.
  bool wait(std::chrono::milliseconds at_most) const;
  int pidfd() const { return pidfd_.number(); }

 private:
  running_process(pid_t pid, descriptor pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}

  pid_t pid_;
  descriptor pidfd_;
};

/// Kills this process when the thread that started it ends. Call it first in main. Returns false
/// when the parent has ended already (`parent` is no longer the parent's pid); the caller must then
/// end. The kernel resets this when a program with another user starts.
bool end_with_parent(pid_t parent);

}  // namespace troupe::runtime

// Which process: a pid alone is given to another one some time after its process has ended.
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

/// A process of this host, told from a later one with the same pid by its start.
struct process_id {
  pid_t pid = 0;
  std::uint64_t start_time
      = 0;  ///< clock ticks from the start of the machine, field 22 of its stat
  bool operator==(const process_id&) const = default;
};

/// What the kernel says of a process, a zombie included.
struct process_facts {
  process_id id;
  char state = '?';  ///< 'R', 'S', 'T', 'Z', ...
  pid_t parent = 0, group = 0;
};

/// Nothing: there is no such process.
std::optional<process_facts> look_at_process(pid_t pid);

/// Of the text of /proc/PID/stat; nothing where it is none. The name in it may hold anything.
std::optional<process_facts> read_process_facts(const std::string& stat);

process_id this_process();

/// A zombie does not run: it has ended, and nobody has asked how.
bool is_running(const process_id& x);

/// All processes that this one is the parent of, zombies included.
std::vector<process_facts> children_of(pid_t parent);

/// Kills what is left of the process group that it leads or has led; nobody of a later group with
/// that number.
void kill_group(const process_id& leader);

/// The words that a process was started with; none: it is gone.
std::vector<std::string> command_of(pid_t pid);

std::string host_name();

/// Holds on to a process that runs, whosever child it is: no signal reaches a later one with its
/// pid. One thread.
class running_process {
 public:
  /// Nothing: it does not run. Throws io_error where the system refuses.
  static std::optional<running_process> find(const process_id& x);
  /// The same of one that may be a zombie. That its first thread is one says nothing of the others:
  /// all have ended when `wait` says so. Nothing: it is gone.
  static std::optional<running_process> find_also_ended(const process_id& x);

  /// False: it has ended. Throws io_error where the system refuses.
  bool signal(int number) const;
  /// True: it has ended.
  bool wait(std::chrono::milliseconds at_most) const;
  int pidfd() const { return pidfd_.number(); }

 private:
  running_process(pid_t pid, descriptor pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}

  pid_t pid_;
  descriptor pidfd_;
};

/// For a process that must not outlive its parent: it is killed when the thread that started it
/// ends, however that ends. Called first thing in main. False: the parent has ended already
/// (`parent` is another process now), so the caller ends, too. The kernel forgets this at the
/// start of a program that changes its user.
bool end_with_parent(pid_t parent);

}  // namespace troupe::runtime

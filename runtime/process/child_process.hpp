// A child process with exactly the listed resources; killed with its process group.

#pragma once

#include "runtime/process/descriptor.hpp"
#include "runtime/process/process_end.hpp"
#include "runtime/process/process_id.hpp"

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct child_program {
  std::vector<std::string> command;  ///< the program's path, then its arguments
  /// NAME=VALUE each, added to this process's environment.
  std::vector<std::string> environment = {};
  /// Standard output and error are appended there (created with mode 0600). Empty: /dev/null.
  std::filesystem::path output = {};
  /// Descriptors of this process that become 3, 4, ... in the child, in this order. The child has
  /// no others but 0 to 2.
  std::vector<int> inherited = {};
  int input = -1;  ///< descriptor that becomes standard input; -1: /dev/null
};

/// A child in its own session and process group, without a terminal.
/// Signals have their defaults: none blocked, none ignored. Processes that it starts are in its
/// group unless they leave it. One thread.
///
///   CHILD-1  A child has only the listed descriptors.
class child_process {
 public:
  /// Throws io_error with the program or the output, and the system's reason.
  explicit child_process(const child_program& what);
  child_process(child_process&& other) noexcept = default;
  child_process& operator=(child_process&& other) = delete;
  /// Kills the group and waits for the child, unless `wait` has answered or `leave` was called.
  ~child_process();

  const process_id& id() const { return id_; }
  /// Readable when the child has ended.
  int pidfd() const { return pidfd_.number(); }

  /// Returns false when the child has ended and was waited for. Throws io_error.
  bool signal(int number) const;
  /// Sends the signal to the child and its group. Does nothing after `wait` has answered.
  void signal_group(int number) const;

  /// The end of the child; empty if it still runs after `at_most`. Kills the rest of its group
  /// first, while the pid still belongs to the child. Call it until it answers; later calls give
  /// the same answer.
  std::optional<process_end> wait(std::chrono::milliseconds at_most);
  process_end wait();

  /// Lets it outlive this object.
  void leave();

 private:
  bool is_ours() const { return bool(pidfd_) && !end_; }

  process_id id_;
  descriptor pidfd_;
  std::uint64_t kills_before_;  ///< when the child started
  std::optional<process_end> end_;
};

/// Appends this process's standard output and error to `file` from now on, as child_program says.
/// Throws io_error.
void write_output_to(const std::filesystem::path& file);

}  // namespace troupe::runtime

// A program that this process starts: what it gets is what is listed, and nothing of it is left.

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
  /// NAME=VALUE each, over what this process has.
  std::vector<std::string> environment = {};
  /// Standard output and error are appended there (made with mode 0600). Empty: to nowhere.
  std::filesystem::path output = {};
  /// Descriptors of this process that it has as 3, 4, ... in this order. No others but 0 to 2.
  std::vector<int> inherited = {};
};

/// A child, in a session and so a process group of its own: no terminal tells it anything. Its
/// standard input is empty. Signals are as a new
/// program has them: none blocked, none ignored. What it starts is in its group, unless it leaves
/// it. One thread.
///
///   CHILD-1  A child has no descriptors but those that are listed.
class child_process {
 public:
  /// Throws io_error that names the program, or the output, and what the system said.
  explicit child_process(const child_program& what);
  child_process(child_process&& other) noexcept = default;
  child_process& operator=(child_process&& other) = delete;
  /// Kills its group and waits for it, unless it was waited for or left.
  ~child_process();

  const process_id& id() const { return id_; }
  /// Readable when it has ended.
  int pidfd() const { return pidfd_.number(); }

  /// False: it has ended and was waited for. Throws io_error where the system refuses.
  bool signal(int number) const;
  /// To it and all that is still in its group; nothing when it was waited for.
  void signal_group(int number) const;

  /// How it ended; nothing: it runs after that time. What is left of its group is killed, while
  /// its pid, and so the group's number, is nobody else's. Call it until it answers: from then on
  /// the answer is the same.
  std::optional<process_end> wait(std::chrono::milliseconds at_most);
  process_end wait();

  /// Lets it outlive this object.
  void leave();

 private:
  bool is_ours() const { return bool(pidfd_) && !end_; }

  process_id id_;
  descriptor pidfd_;
  std::uint64_t kills_before_;  ///< for lack of memory
  std::optional<process_end> end_;
};

/// From now on this process's standard output and error are appended there, as child_program says.
/// Throws io_error.
void write_output_to(const std::filesystem::path& file);

}  // namespace troupe::runtime

// How a process ended.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <sys/wait.h>

namespace troupe::runtime {

struct process_end {
  std::optional<int> exit_code;  ///< nothing: a signal ended it, or it is not known
  int signal = 0;
  bool core = false;  ///< it left a core dump
  /// It was killed, and meanwhile the kernel killed for lack of memory in its control group: very
  /// likely this one, but the kernel does not say whom.
  bool out_of_memory = false;
  /// It was no child of who tells: that it has ended is all that is known.
  bool unseen = false;

  bool operator==(const process_end&) const = default;
};

/// Of what waitid(2) wrote.
process_end process_end_of(const siginfo_t& x);

/// "exit code 2", "killed by SIGSEGV, core dumped", "killed by SIGKILL, probably out of memory",
/// "its end was not seen by a parent".
std::string text_of(const process_end& x);

/// "SIGKILL"; "signal 42" of one without a name.
std::string signal_name(int number);

/// How often the kernel has killed for lack of memory in this process's control group, or one
/// above it, of version 2 or 1; 0 where it does not say. `root` is "/", but for tests.
std::uint64_t out_of_memory_kills(const std::filesystem::path& root = "/");

}  // namespace troupe::runtime

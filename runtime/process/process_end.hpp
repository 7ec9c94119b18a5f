// The end of a process: exit code or signal.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <sys/wait.h>

namespace troupe::runtime {

struct process_end {
  std::optional<int> exit_code;  ///< empty if ended by a signal, or unknown
  int signal = 0;
  bool core = false;  ///< a core dump was written
  /// Killed while the kernel's out-of-memory killer was active in its control group. Very likely it
  /// was the victim; the kernel does not name it.
  bool out_of_memory = false;
  /// Not a child of the reporting process: only its end is known.
  bool unseen = false;

  bool operator==(const process_end&) const = default;
};

/// Converts the result of waitid(2).
process_end process_end_of(const siginfo_t& x);

/// "exit code 2", "killed by SIGSEGV, core dumped", "killed by SIGKILL, probably out of memory",
/// "its end was not seen by a parent".
std::string text_of(const process_end& x);

/// "SIGKILL"; "signal 42" for a number without a name.
std::string signal_name(int number);

/// Number of out-of-memory kills in this process's control group (version 2 or 1) or below; 0 where
/// the kernel does not report it. `root` differs from "/" only in tests.
std::uint64_t out_of_memory_kills(const std::filesystem::path& root = "/");

}  // namespace troupe::runtime

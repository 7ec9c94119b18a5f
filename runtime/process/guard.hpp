// The guard: a process that waits for another process to end and then kills what it left behind.
// Also finds and kills the remains of a run's host agents.

#pragma once

#include "runtime/process/process_id.hpp"

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

namespace troupe::runtime {

/// The processes that outlive a guarded process that is killed.
struct survival {
  /// The survivors; called when the guarded process has ended. All its other remains are killed.
  std::function<std::vector<process_id>()> who;
  /// Whether an orphan that the guard inherited has another supervisor, for example the guard of an
  /// agent that a survivor started. Such an orphan is neither killed nor waited for, except when
  /// all are to end.
  std::function<bool(pid_t)> others;
  /// Whether another process still needs the survivors, besides the process that started the guard.
  std::function<bool()> wanted;
  /// The survivors are killed after they have not been needed for this long.
  std::chrono::milliseconds patience;
};

/// Runs `work` in a child process and returns its exit code (128 + signal when killed). This
/// process becomes the child's guard. When the child has ended, the guard kills all its remaining
/// descendants and calls `clean`. Daemons cannot escape: orphans go to the child (a subreaper)
/// while it lives, then to the guard.
///
/// With `survivors`, the guard stays as their parent while one of them runs. It kills all other
/// orphans except `others`. It ends all when the survivors have not been needed for `patience`, or
/// on a signal.
///
/// The child has its own process group. The guard forwards SIGTERM, SIGINT and SIGHUP as SIGTERM to
/// the child, unless they are ignored. The child also gets SIGTERM when the guard dies, unless
/// there are `survivors`. `signal_to_end_everybody` kills all, the child first. `before` runs in
/// the guard after the fork; descriptors that it closes stay open only in the child. Call this
/// while the process has one thread. Throws io_error.
///
/// Linux: prctl(2), PR_SET_CHILD_SUBREAPER and PR_SET_PDEATHSIG.
int guarded(const std::function<int()>& work,
            const std::function<void()>& before,
            const std::function<void()>& clean,
            const std::optional<survival>& survivors = std::nullopt);

/// Signal that makes a guard kill all its processes; chosen because no scheduler sends it.
int signal_to_end_everybody();

/// Whether the process belongs to that run, by its command line: a host agent or its guard, or a
/// node.
bool is_part_of(const std::filesystem::path& run, pid_t pid);
/// Whether the process is a guard now. The command line of a guard is that of its agent.
bool is_guard(pid_t pid);
/// Kills a process of a run. A guard is told to kill its agent and all that the agent started or
/// adopted. A guard that does not obey, or an agent without a guard, is killed with its children;
/// their descendants go to the nearest subreaper. Any other process is killed alone.
void kill_part(const process_id& it, bool guards_obey = true);

/// Kills the children of this process except those that `spare` accepts, without waiting for them.
void kill_children(const std::function<bool(int pid)>& spare);

/// Blocks the signals that the agent and its guard read.
void block_agent_signals();

}  // namespace troupe::runtime

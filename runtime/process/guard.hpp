// Whatever is killed, nothing is left: a process whose only work is to see another one end; and how
// others know what is left of a run's host agents, and kill it.

#pragma once

#include "runtime/process/process_id.hpp"

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

namespace troupe::runtime {

/// Who outlives a guarded process that is killed.
struct survival {
  /// Those that may; called when it has ended. Others that it leaves are killed.
  std::function<std::vector<process_id>()> who;
  /// Whether an orphan that has come to the guard is left to those that look after it: the guard of
  /// an agent that one of `who` has started, for one. It is neither killed nor waited for, unless
  /// everybody is to end.
  std::function<bool(pid_t)> others;
  /// Whether somebody wants them, besides who has started the guard.
  std::function<bool()> wanted;
  /// So long after nobody does they are killed.
  std::chrono::milliseconds patience;
};

/// Carries out `work` in a child process and returns what it returns there. This process becomes
/// its guard: when the child has ended, however it ended, every process that is left of it and its
/// descendants is killed, then `clean` is called, and the child's exit code is returned (128 +
/// signal). A process cannot leave by becoming a daemon: orphans come to the child (a subreaper)
/// while that lives, to the guard afterwards.
///
/// With `survivors` the guard stays as long as one of them runs, as their parent, and kills
/// whatever else comes to it but `others`; until nobody has wanted them for that patience, or it is
/// told to end by a signal, which ends everybody.
///
/// The child has a process group of its own. SIGTERM, SIGINT and SIGHUP to the guard are SIGTERM to
/// the child, but where they are ignored; so is the guard's own death, of whatever it is, but with
/// `survivors`: then the child notices nothing. After `signal_to_end_everybody` everybody is
/// killed, the child first. `before` runs in the guard when the child stands: what it closes, the
/// child alone has. Call it while this process has one thread. Throws io_error.
///
/// Linux: prctl(2), PR_SET_CHILD_SUBREAPER and PR_SET_PDEATHSIG.
int guarded(const std::function<int()>& work,
            const std::function<void()>& before,
            const std::function<void()>& clean,
            const std::optional<survival>& survivors = std::nullopt);

/// To a guard. No scheduler sends it.
int signal_to_end_everybody();

/// Whether that process was started as a part of that run, by its words: as its host agent, which
/// the guard of that was, too, or as a node.
bool is_part_of(const std::filesystem::path& run, pid_t pid);
/// Whether it guards another one now: the words of that are the same.
bool is_guard(pid_t pid);
/// Kills a part of a run. A guard is told to end everybody: its agent, and whom that has started or
/// adopted. One that does not obey is killed, as is an agent that has none, with its children; who
/// is below those comes to the nearest subreaper. Another part is killed alone.
void kill_part(const process_id& it, bool guards_obey = true);

/// Kills the children of this process that `spare` does not want, without waiting for them.
void kill_children(const std::function<bool(int pid)>& spare);

/// What the agent and its guard are told by signals; blocked from then on.
void block_agent_signals();

}  // namespace troupe::runtime

// Whatever is killed, nothing is left: a process whose only work is to see another one end.

#pragma once

#include <functional>

namespace troupe::runtime {

/// Carries out `work` in a child process and returns what it returns there. This process becomes
/// its guard: when the child has ended, however it ended, every process that is left of it and its
/// descendants is killed, then `clean` is called, and the child's exit code is returned (128 +
/// signal). A process cannot leave by becoming a daemon: orphans come to the child (a subreaper)
/// while that lives, to the guard afterwards.
///
/// The child has a process group of its own. SIGTERM, SIGINT and SIGHUP to the guard are SIGTERM to
/// the child, but where they are ignored; so is the guard's own death, of whatever it is. `before`
/// runs in the guard when the child stands: what it closes, the child alone has. Call it while this
/// process has one thread. Throws io_error.
///
/// Linux: prctl(2), PR_SET_CHILD_SUBREAPER and PR_SET_PDEATHSIG.
int guarded(const std::function<int()>& work,
            const std::function<void()>& before,
            const std::function<void()>& clean);

/// Kills the children of this process that `spare` does not want, without waiting for them.
void kill_children(const std::function<bool(int pid)>& spare);

/// What the agent and its guard are told by signals; blocked from then on.
void block_agent_signals();

}  // namespace troupe::runtime

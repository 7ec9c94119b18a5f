#include "runtime/process/orphaned_agents.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/process/agent_client.hpp"
#include "runtime/process/host_agent.hpp"
#include "runtime/process/host_parts.hpp"
#include "runtime/process/process_id.hpp"

#include <csignal>
#include <optional>
#include <poll.h>
#include <set>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::runtime {
namespace {

using std::chrono::milliseconds;
using agents_clock = std::chrono::steady_clock;

constexpr auto between_reaps = milliseconds(10), between_kills = milliseconds(100);

/// Asks the run's agent on this host to kill all and end. Does nothing when no agent listens.
void ask_agent_to_end(const std::filesystem::path& run, milliseconds patience) {
  try {
    auto agent = agent_client::connect(run);
    agent.ask(end_agent{1});
    const auto until = agents_clock::now() + patience;
    for (;;) {
      const auto left = std::chrono::ceil<milliseconds>(until - agents_clock::now());
      const auto told = left.count() > 0 ? agent.next(left) : std::nullopt;
      if (!told || std::holds_alternative<agent_ended>(*told))
        return;
    }
  } catch (const error&) {  // the agent has just ended, or does not listen yet
  }
}

/// Processes of the run among this process's children. Other children may come from the program
/// before `exec`, or be orphans when this is a container's first process.
class orphaned_agents {
 public:
  explicit orphaned_agents(std::filesystem::path run) : run_(std::move(run)) {}

  bool are_there() {
    for (const auto& one : children_of(::getpid()))
      if (is_part_of(run_, one.id.pid))
        left_.insert(one.id.pid);
    std::erase_if(left_, [](int pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
    return !left_.empty();
  }

  /// Returns false when some still run after `within`.
  bool have_ended(milliseconds within) {
    for (const auto until = agents_clock::now() + within; are_there();) {
      if (agents_clock::now() > until)
        return false;
      ::poll(nullptr, 0, int(between_reaps.count()));
    }
    return true;
  }

  /// The children of a killed agent are reparented to this process.
  void kill() const {
    for (const int pid : left_)
      if (const auto facts = look_at_process(pid))
        kill_with_group(facts->id);
  }

 private:
  const std::filesystem::path run_;
  std::set<int> left_;
};

}  // namespace

void kill_with_group(const process_id& x) {
  try {
    if (const auto it = running_process::find(x))
      it->signal(SIGKILL);
    kill_group(x);
  } catch (const io_error& failure) {
    log_warning("cannot kill process {}: {}", x.pid, failure.what());
  }
}

void end_agents_of(const std::filesystem::path& run,
                   milliseconds patience,
                   milliseconds suspicion) {
  const auto id = run_id_of(run);
  orphaned_agents left(run);
  for (const auto until = agents_clock::now() + patience;
       left.are_there() && agents_clock::now() < until;) {
    ask_agent_to_end(run, patience);
    left.have_ended(between_reaps);
  }
  for (const auto until = agents_clock::now() + suspicion;
       left.are_there() && agents_clock::now() < until;) {
    left.kill();
    left.have_ended(between_kills);
  }
  if (processes_of_host(run).empty())
    clean_after_agent(run, id);
}

void kill_parts_of(const std::filesystem::path& run) {
  for (const auto& one : processes_of_host(run))
    kill_with_group(one);
}

}  // namespace troupe::runtime

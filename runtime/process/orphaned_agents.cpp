#include "runtime/process/orphaned_agents.hpp"

#include "runtime/core/error.hpp"
#include "runtime/process/agent_client.hpp"
#include "runtime/process/guard.hpp"
#include "runtime/process/host_agent.hpp"
#include "runtime/process/process_id.hpp"
#include "runtime/process/run_folder.hpp"

#include <algorithm>
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
constexpr const char* part_prefix = "troupe:";

/// Asks the run's agent on this host to end everybody; nothing comes of it when none listens.
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
  } catch (const error&) {  // it has just ended, or does not listen yet
  }
}

/// Whether this child of ours is a part of that run, by how it was started. Others may have come to
/// us, too: children of who was this process before `exec`, and orphans, where it is the first
/// process of a container.
bool is_part_of(const std::filesystem::path& run, int pid) {
  const auto words = command_of(pid);
  if (words.size() < 2 || !words[1].starts_with(part_prefix))
    return false;
  std::error_code failure;
  const auto wanted = std::filesystem::weakly_canonical(run, failure);
  return std::any_of(words.begin() + 2, words.end(), [&](const std::string& word) {
    return std::filesystem::weakly_canonical(word, failure) == wanted;
  });
}

/// Those of a run that have come to this process, and nobody else.
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

  /// False: they are still there after that time.
  bool have_ended(milliseconds within) {
    for (const auto until = agents_clock::now() + within; are_there();) {
      if (agents_clock::now() > until)
        return false;
      ::poll(nullptr, 0, int(between_reaps.count()));
    }
    return true;
  }

  /// A guard kills its agent, and all others; one of an agent that does so at its end, after that.
  /// Who is below one that does not obey comes to us.
  void kill(bool guards_obey) const {
    for (const int pid : left_) {
      const auto words = command_of(pid);
      const bool of_agent = words.size() > 1 && words[1] == agent_word;
      const bool guards = of_agent && !is_agent(pid);
      if (guards && guards_obey) {
        ::kill(pid, signal_to_end_everybody());  // a child's pid is its own until we wait for it
        continue;
      }
      if (of_agent)
        for (const auto& one : children_of(pid))
          if (const auto below = running_process::find(one.id))
            below->signal(SIGKILL);
      ::kill(pid, SIGKILL);
    }
  }

 private:
  /// Its guard was killed: else that would be our child.
  bool is_agent(int pid) const {
    try {
      const auto agent = running_agent(run_folder::open(run_));
      return agent && agent->pid == pid;
    } catch (const error&) {
      return false;
    }
  }

  const std::filesystem::path run_;
  std::set<int> left_;
};

}  // namespace

void end_agents_of(const std::filesystem::path& run,
                   milliseconds patience,
                   milliseconds suspicion) {
  orphaned_agents left(run);
  for (const auto until = agents_clock::now() + patience;
       left.are_there() && agents_clock::now() < until;) {
    ask_agent_to_end(run, patience);
    left.have_ended(between_reaps);
  }
  if (!left.are_there())
    return;
  left.kill(true);
  for (const auto until = agents_clock::now() + suspicion;
       !left.have_ended(between_kills) && agents_clock::now() < until;)
    left.kill(agents_clock::now() + suspicion / 2 < until);
}

}  // namespace troupe::runtime

#include "runtime/process/orphaned_agents.hpp"

#include "runtime/core/error.hpp"
#include "runtime/process/agent_client.hpp"
#include "runtime/process/host_agent.hpp"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <fstream>
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

constexpr auto between_reaps = milliseconds(10);

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

/// Whether this child of ours is the guard of that run's host agent, by how it was started. Others
/// may have come to us, too: children of who was this process before `exec`, and orphans, where it
/// is the first process of a container.
bool guards_agent_of(const std::filesystem::path& run, int pid) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');)
    words.push_back(std::move(word));
  if (words.size() < 2 || words[1] != agent_word)
    return false;
  std::error_code failure;
  const auto wanted = std::filesystem::weakly_canonical(run, failure);
  return std::any_of(words.begin() + 2, words.end(), [&](const std::string& word) {
    return std::filesystem::weakly_canonical(word, failure) == wanted;
  });
}

/// The guards of a run's agents that have come to this process, and nobody else.
class orphaned_agents {
 public:
  explicit orphaned_agents(std::filesystem::path run) : run_(std::move(run)) {}

  bool are_there() {
    for (const auto& one : children_of(::getpid()))
      if (guards_agent_of(run_, one.id.pid))
        guards_.insert(one.id.pid);
    std::erase_if(guards_, [](int pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
    return !guards_.empty();
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

  /// A guard is killed by the end of its agent, not before: else who was started would be ours.
  void kill() const {
    for (const int guard : guards_) {
      const auto below = children_of(guard);
      for (const auto& one : below)
        if (const auto agent = running_process::find(one.id))
          agent->signal(SIGKILL);
      if (below.empty())
        ::kill(guard, SIGKILL);  // a child's pid is its own until we wait for it
    }
  }

 private:
  const std::filesystem::path run_;
  std::set<int> guards_;
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
  if (left.are_there()) {
    left.kill();
    left.have_ended(suspicion);
  }
}

}  // namespace troupe::runtime

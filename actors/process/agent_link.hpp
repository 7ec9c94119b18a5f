// The connection to this host's agent, and a thread that reads its messages.

#pragma once

#include "messages/control/rendezvous.hpp"
#include "runtime/process/agent_client.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace troupe::actors {

/// The agent's name for the process of a place; and the place of a name, -1 for other names.
std::string agent_name_of(int process);
int process_of(std::string_view agents_name);

/// Used by one thread, except the listener. The destructor asks the agent to end all its processes.
///
/// An agent that is gone is replaced at once, unless it is the fourth in a row without a message,
/// or there is nothing to do. The next agent adopts the processes and gets the requests that were
/// not answered. docs/protocol/host_agent.md.
class agent_link {
 public:
  /// Called by a thread of the link. The last call reports that the agent is gone; it may come
  /// after the link's end.
  using listener = std::function<void(messages::agent_told)>;

  /// Its owner learns this by a message of the listener.
  struct heard {
    std::vector<runtime::agent_answer> answers = {};
    bool lost = false;  ///< the agent is gone and not replaced; none of its processes runs
  };

  /// `command`: as for agent_client::start. An agent that ends or hangs is killed after `patience`.
  agent_link(std::vector<std::string> command,
             std::filesystem::path run,
             std::chrono::milliseconds patience,
             listener tell);
  ~agent_link();
  agent_link(const agent_link&) = delete;
  agent_link& operator=(const agent_link&) = delete;

  /// Throws io_error when the agent cannot be started.
  void start();
  /// Instead of `start`: connects to the agent of an earlier owner. Returns the processes that it
  /// knows, also ended ones, and those of `running`, which it adopts. When no agent listens, or it
  /// does not answer within the patience, it is killed and a new one is started. Blocks for at most
  /// twice the patience. Throws as `start`.
  std::vector<runtime::known_process> take_over(
      const std::vector<runtime::process_started>& running);
  /// Asks the agent, and each later one, to start a successor when this process, the run's
  /// supervisor process, is gone without having sent `end`. A refusal has request 0.
  void succeed(runtime::succession by);
  /// Sends to the current agent, or starts one. `hear` gets the answer. Throws as `start`. After
  /// end_agent the link owes no successor.
  void ask(const runtime::agent_request& what);
  bool is_there() const { return agent_ != nullptr; }
  /// The processes that run, as far as `hear` was told, by name.
  const std::map<std::string, runtime::process_started>& running() const { return running_; }
  /// Handles a message of the listener; those of earlier agents change nothing.
  heard hear(const messages::agent_told& x);
  /// Kills only the agent; does nothing when there is none.
  void kill() const;
  /// Kills the agent and its processes, also those that a dead agent has left.
  void kill_everybody() const;

 private:
  void be_with(std::shared_ptr<runtime::agent_client> agent);
  void send(const runtime::agent_request& what);
  void ask_to_be_succeeded();
  std::vector<runtime::agent_answer> note(runtime::agent_answer x);
  void adopt(const runtime::process_started& x, std::uint64_t request);
  void repeat(const runtime::agent_request& x);
  void replace(const std::string& why);
  void leave_listener();

  const std::vector<std::string> command_;
  const std::filesystem::path run_;
  const std::chrono::milliseconds patience_;
  const listener tell_;
  std::optional<runtime::succession> succession_;
  std::uint64_t agents_ = 0;  ///< number of agents started or taken over
  int ended_ = 0;             ///< agents in a row that ended without a message
  bool ends_ = false;         ///< end_agent was asked for
  std::map<std::string, runtime::process_started> running_;
  std::map<std::uint64_t, runtime::agent_request> asked_;      ///< starts and signals, unanswered
  std::map<std::uint64_t, runtime::process_started> adopted_;  ///< unanswered, by request
  std::uint64_t adoptions_ = 0;
  std::shared_ptr<runtime::agent_client> agent_;
  std::jthread listener_;
};

}  // namespace troupe::actors

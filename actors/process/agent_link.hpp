// The connection to this host's agent, and a thread that reads its messages.

#pragma once

#include "messages/control/rendezvous.hpp"
#include "runtime/process/agent_client.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
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
class agent_link {
 public:
  /// Called by a thread of the link. The last call reports that the agent is gone; it may come
  /// after the link's end.
  using listener = std::function<void(messages::agent_told)>;

  /// `command`: as for agent_client::start. An agent that ends or hangs is killed after `patience`.
  /// `outlived`: its processes survive its death and the next agent adopts them. Otherwise they
  /// have ended when it is reported gone.
  agent_link(std::vector<std::string> command,
             std::filesystem::path run,
             std::chrono::milliseconds patience,
             listener tell,
             bool outlived = false);
  ~agent_link();
  agent_link(const agent_link&) = delete;
  agent_link& operator=(const agent_link&) = delete;

  /// Throws io_error when the agent cannot be started.
  void start();
  /// Instead of `start`: connects to the agent of an earlier owner. Returns the processes that it
  /// started or adopted, also ended ones. When no agent listens, or it does not answer within the
  /// patience, it is killed, a new one is started, and the result is empty. The caller can then ask
  /// the new one to adopt running processes that it knows of. Blocks for at most twice the
  /// patience. Throws as `start`.
  std::vector<runtime::known_process> take_over();
  /// Asks the agent, and each later one, to start a successor when this process, the run's
  /// supervisor process, is gone without having sent `end`. The listener gets a refusal, with
  /// request 0. From then on an agent that is gone is replaced at once, unless it is the fourth in
  /// a row without a message.
  void succeed(runtime::succession by);
  /// Sends to the current agent, or starts one. The listener gets the answer. Throws as `start`.
  /// After end_agent the link owes no successor and replaces no agent.
  void ask(const runtime::agent_request& what);
  bool is_there() const { return agent_ != nullptr; }
  /// Handles a message of the listener. Returns false when it is of an earlier agent. After an
  /// agent's end, the next request starts another one.
  bool hear(const messages::agent_told& x);
  /// Kills only the agent; does nothing when there is none.
  void kill() const;
  /// Kills the agent and its processes, also those that a dead agent has left.
  void kill_everybody() const;

 private:
  void be_with(std::shared_ptr<runtime::agent_client> agent);
  void ask_to_be_succeeded();
  void leave_listener();

  const std::vector<std::string> command_;
  const std::filesystem::path run_;
  const std::chrono::milliseconds patience_;
  const listener tell_;
  const bool outlived_;
  std::optional<runtime::succession> succession_;
  std::uint64_t agents_ = 0;  ///< number of agents started or taken over
  int ended_ = 0;             ///< agents in a row that ended without a message
  std::shared_ptr<runtime::agent_client> agent_;
  std::jthread listener_;
};

}  // namespace troupe::actors

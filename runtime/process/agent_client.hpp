// The client of a host agent: starts or connects to it, sends requests and reads its answers.

#pragma once

#include "runtime/process/agent_messages.hpp"
#include "runtime/process/child_process.hpp"
#include "runtime/process/descriptor.hpp"
#include "runtime/process/frames.hpp"

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Settings by which the host agent replaces the supervisor process (succeed_owner).
struct succession {
  std::vector<std::string> command;
  std::vector<std::string> environment = {};
  std::filesystem::path output = {};
  /// Heartbeat timeout: after it the agent declares the supervisor process dead and kills it.
  std::chrono::milliseconds silence = std::chrono::seconds(10);
};

/// Any thread may send requests; one thread reads the answers.
class agent_client {
 public:
  /// Starts an agent. `command` gets one more argument: the descriptor of the agent's connection, 3
  /// there. The agent logs into the run's folder. It outlives this object and ends when it has had
  /// no owner for `owner_patience`. Throws io_error.
  static agent_client start(std::vector<std::string> command, const std::filesystem::path& run);
  /// Connects to this host's agent of a run. Throws io_error when no agent listens.
  static agent_client connect(const std::filesystem::path& run);

  ~agent_client();
  agent_client(agent_client&&) noexcept;
  agent_client& operator=(agent_client&&) = delete;

  /// Throws io_error when the agent is gone.
  void ask(const agent_request& what);
  /// Asks the agent to start a successor when this process is gone without having sent `end`. From
  /// then on a thread of this object sends heartbeats. The agent answers with succession_agreed or
  /// request_refused. Throws io_error.
  void succeed(std::uint64_t request, const succession& by);
  /// The next answer; empty after a timeout. Throws io_error when the agent is gone, input_error
  /// when its message is not understood.
  std::optional<agent_answer> next(std::chrono::milliseconds at_most);

  /// The end of the agent; empty if it still runs after `at_most`. How it ended is known only for
  /// an agent that this object started.
  std::optional<process_end> wait(std::chrono::milliseconds at_most);
  /// Kills only the agent; `next` throws afterwards. Returns false when it has not ended within
  /// `at_most`. Any thread.
  bool kill(std::chrono::milliseconds at_most = std::chrono::milliseconds(0)) const;
  /// The running agent; empty if it has ended.
  std::optional<process_id> agent() const;

 private:
  class line;  ///< the connection, and the heartbeat thread

  agent_client(descriptor connection, std::optional<child_process> agent, process_id other);

  std::optional<child_process> agent_;  ///< empty if this object only connected
  process_id other_;
  std::unique_ptr<line> line_;
  frame_reader received_;
};

}  // namespace troupe::runtime

// The other end of a host agent: who asks it to start and kill.

#pragma once

#include "runtime/process/agent_messages.hpp"
#include "runtime/process/child_process.hpp"
#include "runtime/process/descriptor.hpp"
#include "runtime/process/frames.hpp"

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// One thread asks, one thread, which may be another, takes what is told.
class agent_client {
 public:
  /// Starts an agent: `command` and the descriptor of its connection, which is 3 there, as its last
  /// word; its log is in the run's folder. The agent outlives this object, until nobody has been
  /// there for long. Throws io_error.
  static agent_client start(std::vector<std::string> command, const std::filesystem::path& run);
  /// To this host's agent of a run. Throws io_error: there is none.
  static agent_client connect(const std::filesystem::path& run);

  ~agent_client();
  agent_client(agent_client&&) noexcept = default;
  agent_client& operator=(agent_client&&) = delete;

  /// Throws io_error when the agent is gone.
  void ask(const agent_request& what);
  /// What it tells next; nothing within that time. Throws io_error when the agent is gone,
  /// input_error when it speaks otherwise.
  std::optional<agent_answer> next(std::chrono::milliseconds at_most);
  /// Readable when there may be something.
  int connection() const { return connection_.number(); }

  /// Of one that was started here, how it ended (the guard's exit code); nothing: it runs after
  /// that time.
  std::optional<process_end> wait(std::chrono::milliseconds at_most);
  /// Kills an agent that was started here and its guard, and so whomever it has started; then
  /// `next` throws. It may be called by any thread.
  void kill() const;
  /// Its guard, of one that was started here.
  std::optional<process_id> guard() const;

 private:
  agent_client(descriptor connection, std::optional<child_process> agent)
      : connection_(std::move(connection)), agent_(std::move(agent)) {}

  descriptor connection_;
  std::optional<child_process> agent_;
  frame_reader received_;
};

}  // namespace troupe::runtime

// The other end of a host agent: who asks it to start and kill.

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

/// How the run's supervisor's process is succeeded (succeed_owner).
struct succession {
  std::vector<std::string> command;
  std::vector<std::string> environment = {};
  std::filesystem::path output = {};
  /// After which without a sign of life it is taken for gone, and killed.
  std::chrono::milliseconds silence = std::chrono::seconds(10);
};

/// Any thread asks, one thread takes what is told.
class agent_client {
 public:
  /// Starts an agent: `command` and the descriptor of its connection, which is 3 there, as its last
  /// word; its log is in the run's folder. The agent outlives this object, until nobody has been
  /// there for long. Throws io_error.
  static agent_client start(std::vector<std::string> command, const std::filesystem::path& run);
  /// To this host's agent of a run. Throws io_error: there is none.
  static agent_client connect(const std::filesystem::path& run);

  ~agent_client();
  agent_client(agent_client&&) noexcept;
  agent_client& operator=(agent_client&&) = delete;

  /// Throws io_error when the agent is gone.
  void ask(const agent_request& what);
  /// Asks it to start a successor of this process when that is gone without having asked for the
  /// agent's end. From then on a thread of this object says that this process is still there.
  /// Answered by succession_agreed or request_refused. Throws io_error.
  void succeed(std::uint64_t request, const succession& by);
  /// What it tells next; nothing within that time. Throws io_error when the agent is gone,
  /// input_error when it speaks otherwise.
  std::optional<agent_answer> next(std::chrono::milliseconds at_most);
  /// Readable when there may be something.
  int connection() const;

  /// Of one that was started here, how its guard ended (with its exit code); of another one, that
  /// it has ended. Nothing: it runs after that time.
  std::optional<process_end> wait(std::chrono::milliseconds at_most);
  /// Kills the agent alone; then `next` throws. Its guard kills whomever it has started, but where
  /// they outlive their agent (host_agent_settings). False: it has not ended within that time. It
  /// may be called by any thread.
  bool kill(std::chrono::milliseconds at_most = std::chrono::milliseconds(0)) const;
  /// The same, and whom it has started or adopted in any case.
  void kill_everybody() const;
  /// Its guard, of one that was started here.
  std::optional<process_id> guard() const;
  /// The agent itself, while it runs, as far as it has shown itself.
  std::optional<process_id> agent() const;

 private:
  class line;  ///< the connection, and the thread that gives signs of life

  agent_client(descriptor connection,
               std::optional<child_process> agent,
               std::filesystem::path run);

  std::filesystem::path run_;
  std::optional<child_process> agent_;
  std::unique_ptr<line> line_;
  frame_reader received_;
};

}  // namespace troupe::runtime

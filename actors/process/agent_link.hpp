// This host's agent, and a thread that hears what it says.

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

/// The agent's name for the process of that place; and the place, -1 for another name.
std::string agent_name_of(int process);
int process_of(std::string_view agents_name);

/// One thread, but for what is heard. Whoever still runs at its end is ended by the agent.
class agent_link {
 public:
  /// Called by a thread of the link's; the last is that the agent is gone. It may come after the
  /// link's end.
  using listener = std::function<void(messages::agent_told)>;

  /// `command`: as agent_client::start wants it. An agent that ends or hangs has `patience` until
  /// it is killed. `outlived`: those that it has started live on when it dies, and the next one is
  /// to adopt them; else they have ended when it is told to be gone.
  agent_link(std::vector<std::string> command,
             std::filesystem::path run,
             std::chrono::milliseconds patience,
             listener tell,
             bool outlived = false);
  ~agent_link();
  agent_link(const agent_link&) = delete;
  agent_link& operator=(const agent_link&) = delete;

  /// Throws io_error: it cannot be started.
  void start();
  /// In the place of `start`: with the agent that an owner before this one has left. Returns whom
  /// it has started or adopted, also those that have ended, and how. Where none listens, or it does
  /// not answer within the patience, it is killed, another one is started, and nobody is returned:
  /// of whom is known otherwise, the new one may be asked to adopt those that run. Blocks for that
  /// time at most, and as long again at most until one that was killed has ended. Throws as
  /// `start`.
  std::vector<runtime::known_process> take_over();
  /// This process is the run's supervisor's: the agent, and each that is started after it, is asked
  /// to start its successor when it is gone before it has asked for the agent's end. A refusal is
  /// told by the thread, with request 0.
  void succeed(runtime::succession by);
  /// Of the agent that is there, or a new one. Whether it was heard is told by the thread. Throws
  /// as `start`.
  void ask(const runtime::agent_request& what);
  bool is_there() const { return agent_ != nullptr; }
  /// That has come from the thread. False: it is of an agent before this one. After its end the
  /// next order starts another.
  bool hear(const messages::agent_told& x);
  /// The agent alone; nothing happens when there is none.
  void kill() const;
  /// With whom it has started.
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
  std::uint64_t agents_ = 0;  ///< that were started or taken over
  std::shared_ptr<runtime::agent_client> agent_;
  std::jthread listener_;
};

}  // namespace troupe::actors

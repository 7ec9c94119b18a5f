// The host agent: starts processes, tells at once who died and how, kills whom it is told to, and
// leaves nothing behind. docs/protocol/host_agent.md.

#pragma once

#include "runtime/process/agent_state.hpp"
#include "runtime/process/descriptor.hpp"
#include "runtime/process/process_id.hpp"
#include "runtime/process/run_folder.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace troupe::runtime {

struct host_agent_settings {
  std::filesystem::path run;  ///< the run's folder, which is there
  descriptor connection;      ///< to who started it; none: whoever comes by the socket
  agent_settings behaviour = {};
  /// Ends by SIGTERM, SIGINT and SIGHUP. Else all signals that ask a job to end are ignored: a
  /// scheduler sends them to every process of a run, which ends in order, and this one last.
  bool obeys_signals = true;
  /// Whom it has started lives on when it dies, as long as another agent of the run listens or who
  /// has started this one lives, and as long again as an agent waits for an owner; the next agent
  /// adopts them. Else its guard kills them at once.
  bool outlived = false;
};

/// The first word that a program is given which is to be a run's host agent; the run's folder is
/// among the others.
inline constexpr const char* agent_word = "troupe:agent";

/// From here on this process ends by its owner's word, or when it has none: signals by which a job
/// is asked to end reach the supervisor, and nobody else.
void ignore_requests_to_end();

/// The name of this host's agent among the processes of a run, and of its socket.
std::string agent_name();

/// The process that is a run's agent on this host, by its entry; nothing: none runs.
std::optional<process_id> running_agent(const run_folder& of);

/// Is the agent, under its guard, until it ends; returns the exit code. While it runs, it listens
/// as `agent_name()` in the run's `sockets`, and has an entry of that name. Call it while this
/// process has one thread. Throws input_error (the folder) and io_error before it has begun.
int run_host_agent(host_agent_settings settings);

}  // namespace troupe::runtime

// The host agent of a run: starts and kills processes on its host on request, and reports their
// deaths. When it is killed, its processes live on until the next agent adopts them; those of a run
// without recovery end with it. docs/protocol/host_agent.md.

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
  std::filesystem::path run;  ///< the run's folder; must exist
  descriptor connection;      ///< to the process that started the agent; may be empty
  agent_settings behaviour = {};
  /// SIGTERM, SIGINT and SIGHUP end the agent. False: ignores all signals that ask a job to end. A
  /// scheduler sends those to every process of a run, and the agent has to end last.
  bool obeys_signals = true;
};

/// The first argument of a process that is a run's host agent. The run's folder is among its other
/// arguments.
inline constexpr const char* agent_word = "troupe:agent";

/// Ignores the signals that ask a job to end: they end the run through the supervisor. This process
/// then ends on its owner's request, or when it has no owner.
void ignore_requests_to_end();

/// Name of this host's agent among the run's processes, and of its socket.
std::string agent_name();

/// The running agent of a run on this host, by its entry; empty if none runs.
std::optional<process_id> running_agent(const run_folder& of);

/// Runs the agent in this process until it ends. It listens as `agent_name()` in the run's
/// `sockets` and has an entry of that name. Call it while this process has one thread. Throws
/// input_error (bad folder) and io_error before it starts.
void run_host_agent(host_agent_settings settings);

/// The id of the run in that folder; empty if the folder is gone or unreadable.
std::string run_id_of(const std::filesystem::path& run);
/// Removes this host's agent's files in the folder, and the shared memory of the run with that id.
/// Removes only the memory if another run has the folder by now.
void clean_after_agent(const std::filesystem::path& run, const std::string& id);

}  // namespace troupe::runtime

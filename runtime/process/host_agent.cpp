#include "runtime/process/host_agent.hpp"

#include "runtime/core/error.hpp"
#include "runtime/process/agent_loop.hpp"
#include "runtime/process/process_entry.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/process/run_succession.hpp"
#include "runtime/process/segments.hpp"
#include "runtime/process/temporary_run.hpp"
#include "runtime/process/unix_socket.hpp"

#include <algorithm>
#include <csignal>
#include <unistd.h>
#include <utility>

namespace troupe::runtime {

void ignore_requests_to_end() {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU})
    ::signal(number, SIG_IGN);
}

std::string agent_name() {
  constexpr std::size_t longest = 50;
  auto out = "agent-" + host_name().substr(0, longest);
  std::replace_if(
      out.begin(),
      out.end(),
      [](char c) {
        return !is_process_name({&c, 1}) && c != '.';
      },
      '_');
  return out;
}

std::optional<process_id> running_agent(const run_folder& of) {
  std::optional<process_id> out;
  for (const auto& one : seen_processes(of, [](const std::string&) {}))
    if (one.entry.name == agent_name() && one.runs.value_or(false))
      out = one.entry.process;
  return out;
}

void run_host_agent(host_agent_settings settings) {
  const auto folder = run_folder::open(settings.run);
  const auto id = folder.record().id;
  if (!settings.obeys_signals)
    ignore_requests_to_end();
  agent_loop loop(settings.behaviour,
                  listen_in(folder.sockets(), agent_name()),
                  std::move(settings.connection),
                  settings.obeys_signals,
                  [&](bool given) { promise_succession(folder, given); });
  write_entry(folder, entry_of_this_process(agent_name(), "agent"));
  loop.run();
  clean_after_agent(settings.run, id);
}

std::string run_id_of(const std::filesystem::path& run) {
  try {
    return run_folder::open(run).record().id;
  } catch (const error&) {
    return {};
  }
}

void clean_after_agent(const std::filesystem::path& run, const std::string& id) {
  if (!id.empty())
    remove_segments(id);
  try {
    const auto folder = run_folder::open(run);
    if (folder.record().id != id)
      return;
    promise_succession(folder, false);
    remove_entry(folder, agent_name());
    ::unlink((folder.sockets() / agent_name()).c_str());
    leave_temporary(folder);
  } catch (const error&) {  // the folder is gone
  }
}

}  // namespace troupe::runtime

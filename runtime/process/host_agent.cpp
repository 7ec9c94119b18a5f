#include "runtime/process/host_agent.hpp"

#include "runtime/core/error.hpp"
#include "runtime/process/agent_loop.hpp"
#include "runtime/process/agents_share.hpp"
#include "runtime/process/guard.hpp"
#include "runtime/process/named_processes.hpp"
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
namespace {

/// The next run may have taken the folder while this agent of a killed run still lived.
bool is_still_of(const run_folder& folder, const std::string& id) {
  try {
    return folder.record().id == id;
  } catch (const error&) {
    return false;
  }
}

void clean(const run_folder& folder, const std::string& id, agents_share& share) {
  if (!is_still_of(folder, id)) {
    remove_segments(id);
    return;
  }
  // Other agents of the run, or survivors of one, may use these files; the last share removes them.
  share.end([&] {
    remove_segments(id);
    promise_succession(folder, false);
    remove_entry(folder, agent_name());
    ::unlink((folder.sockets() / agent_name()).c_str());
    leave_temporary(folder);
  });
}

/// Whether the process belongs to the run, by its command line or, for the supervisor process, by
/// its entry.
bool is_of_run(const run_folder& folder, pid_t pid) {
  if (is_part_of(folder.path(), pid))
    return true;
  try {
    const auto all = seen_processes(folder, [](const std::string&) {});
    return std::any_of(all.begin(), all.end(), [pid](const seen_process& one) {
      return one.entry.process.pid == pid && one.runs.value_or(false);
    });
  } catch (const error&) {  // the folder is gone
    return false;
  }
}

int serve(host_agent_settings& settings, const run_folder& folder, named_processes& named) {
  auto listening = listen_in(folder.sockets(), agent_name());
  write_entry(folder, entry_of_this_process(agent_name(), "agent"));
  agent_loop loop(settings.behaviour,
                  std::move(listening),
                  std::move(settings.connection),
                  {.obeys_signals = settings.obeys_signals, .ends_with_parent = !settings.outlived},
                  named,
                  [&](bool given) { promise_succession(folder, given); });
  loop.run();
  return 0;
}

}  // namespace

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

int run_host_agent(host_agent_settings settings) {
  const auto folder = run_folder::open(settings.run);
  const auto id = folder.record().id;
  if (!settings.obeys_signals)
    ignore_requests_to_end();
  agents_share share(folder);
  named_processes named(settings.behaviour.most_names);
  std::optional<survival> survivors;
  if (settings.outlived)
    survivors = survival{.who = [&] { return named.all(); },
                         .others = [&](pid_t pid) { return is_of_run(folder, pid); },
                         .wanted =
                             [&] {
                               try {
                                 return is_still_of(folder, id) && running_agent(folder);
                               } catch (const error&) {  // the folder is gone
                                 return false;
                               }
                             },
                         .patience = settings.behaviour.owner_patience};
  return guarded(
      [&] {
        const int code = serve(settings, folder, named);
        clean(folder, id, share);  // also here, because the guard may have been killed
        return code;
      },
      [&] { settings.connection.close(); },
      [&] { clean(folder, id, share); },
      survivors);
}

}  // namespace troupe::runtime

#include "actors/process/launch_sites.hpp"

#include "actors/support/outside_sender.hpp"
#include "runtime/process/host_parts.hpp"
#include "runtime/process/process_entry.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <csignal>
#include <fmt/format.h>
#include <map>
#include <utility>

namespace troupe::actors {

launch_sites::launch_sites(messages::launcher_actor::pointer self,
                           const launch_settings& settings,
                           std::uint16_t port,
                           const shared_resources& context,
                           int processes,
                           double suspicion,
                           std::optional<int> agent)
    : self_(self),
      settings_(settings),
      folder_(runtime::run_folder::open(settings.run)),
      port_(port),
      path_(context.messages),
      processes_(processes),
      suspicion_(suspicion) {
  if (!agent)
    return;
  const auto patience = part_of_suspicion(1);
  agent_ = std::make_unique<agent_link>(
      settings_.agent,
      settings_.run,
      patience,
      [host = *agent,
       tell = outside_sender(messages::launcher_actor(self_), path_)](messages::agent_told x) {
        x.host = host;
        tell(std::move(x));
      });
  if (settings_.incarnation > 1)
    take_over();
  else
    agent_->start();
  if (!settings_.successor.empty())
    agent_->succeed({.command = settings_.successor,
                     .output = folder_.log_of(runtime::successor_name),
                     .silence = patience});
}

std::chrono::milliseconds launch_sites::part_of_suspicion(double part) const {
  return std::chrono::ceil<std::chrono::milliseconds>(
      std::chrono::duration<double>(suspicion_ * part));
}

// The agent knows the processes that it started. The run's folder knows each process that has
// stood, and the kernel those that run, also when the agent is new.
void launch_sites::take_over() {
  std::map<int, filled_place> all;
  const auto note = [&all](const std::string& name, std::uint64_t incarnation, std::int64_t pid) {
    const messages::process_name who{process_of(name), std::uint32_t(incarnation)};
    if (who.process >= 0 && who.incarnation >= all[who.process].who.incarnation)
      all[who.process] = {.who = who, .pid = pid};
  };
  for (const auto& one : runtime::seen_processes(folder_, [](const std::string&) {}))
    note(one.entry.name, one.entry.incarnation, 0);
  std::vector<runtime::process_started> running;
  for (const auto& one : runtime::parts_of_host(settings_.run))
    if (process_of(one.name) >= 0)
      running.push_back({.name = one.name, .which = one.incarnation, .process = one.process});
  for (const auto& one : agent_->take_over(running))
    note(one.name, one.which, one.ended ? 0 : one.process.pid);
  for (auto& [process, x] : all)
    filled_.push_back(x);
}

void launch_sites::start(const launch_action::start& x) {
  agent_->ask(runtime::start_process{
      .request = x.request,
      .name = agent_name_of(x.who.process),
      .which = x.who.incarnation,
      .command = settings_.node({x.who.process, x.who.incarnation, settings_.address, port_}),
      .environment = {},
      .output = log_of(x.who.process, 0)});
}

void launch_sites::kill(const launch_action::kill& x) {
  agent_->ask(
      runtime::signal_process{x.request, agent_name_of(x.who.process), x.who.incarnation, SIGKILL});
}

bool launch_sites::end_agent(int) {
  if (!agent_->is_there())
    return false;
  agent_->ask(runtime::end_agent{});
  return true;
}

std::string launch_sites::name_of(int process, int) const {
  return fmt::format("process:{}", process);
}

std::string launch_sites::log_of(int process, int) const {
  return folder_.log_of(agent_name_of(process)).string();
}

}  // namespace troupe::actors

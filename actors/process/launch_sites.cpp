#include "actors/process/launch_sites.hpp"

#include "runtime/process/host_parts.hpp"
#include "runtime/process/process_entry.hpp"
#include "runtime/process/run_folder.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <utility>

namespace troupe::actors {
namespace {

std::chrono::milliseconds in_milliseconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(seconds));
}

class this_host final : public launch_sites {
 public:
  this_host(const launch_settings& settings,
            std::uint16_t port,
            int processes,
            std::chrono::milliseconds patience,
            agent_link::listener tell)
      : settings_(settings),
        port_(port),
        folder_(runtime::run_folder::open(settings.run)),
        processes_(processes),
        agent_(settings.agent, settings.run, patience, std::move(tell)) {
    if (settings_.incarnation > 1)
      take_over();
    else
      agent_.start();
    if (!settings_.successor.empty())
      agent_.succeed({.command = settings_.successor,
                      .output = folder_.log_of(runtime::successor_name),
                      .silence = patience});
  }

  std::vector<filled_place> filled() const override { return filled_; }
  std::vector<int> agents() const override { return std::vector<int>(std::size_t(processes_), 0); }
  void start(const launch_action::start& x) override {
    agent_.ask(runtime::start_process{
        .request = x.request,
        .name = agent_name_of(x.who.process),
        .which = x.who.incarnation,
        .command = settings_.node({x.who.process, x.who.incarnation, settings_.address, port_}),
        .environment = {},
        .output = log_file(x.who.process)});
  }
  void kill(const launch_action::kill& x) override {
    agent_.ask(runtime::signal_process{
        x.request, agent_name_of(x.who.process), x.who.incarnation, SIGKILL});
  }
  bool end_agent(int) override {
    if (!agent_.is_there())
      return false;
    agent_.ask(runtime::end_agent{});
    return true;
  }
  void kill_agent(int) override { agent_.kill(); }

  agent_link::heard hear(const messages::agent_told& x) override { return agent_.hear(x); }
  int host_of(const caf::actor_addr&) const override { return -1; }
  std::string name_of(int process, int) const override {
    return fmt::format("process:{}", process);
  }
  std::string log_of(int process, int) const override { return log_file(process).string(); }

 private:
  std::filesystem::path log_file(int process) const {
    return folder_.log_of(agent_name_of(process));
  }

  // The agent knows the processes that it started. The run's folder knows each process that has
  // stood, and the kernel those that run, also when the agent is new.
  void take_over() {
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
    for (const auto& one : agent_.take_over(running))
      note(one.name, one.which, one.ended ? 0 : one.process.pid);
    for (auto& [process, x] : all)
      filled_.push_back(x);
  }

  const launch_settings settings_;
  const std::uint16_t port_;
  const runtime::run_folder folder_;
  const int processes_;
  agent_link agent_;
  std::vector<filled_place> filled_;
};

}  // namespace

std::unique_ptr<launch_sites> sites_of_this_host(messages::launcher_actor::pointer self,
                                                 const launch_settings& settings,
                                                 std::uint16_t port,
                                                 const shared_resources& context,
                                                 int processes,
                                                 double suspicion) {
  return std::make_unique<this_host>(
      settings,
      port,
      processes,
      in_milliseconds(suspicion),
      [me = caf::actor_cast<caf::weak_actor_ptr>(self->ctrl()),
       path = context.messages](messages::agent_told x) {
        if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(me))
          path->send_from_outside(caf::actor_cast<messages::launcher_actor>(alive), std::move(x));
      });
}

}  // namespace troupe::actors

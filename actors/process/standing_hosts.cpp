// Hosts with standing nodes: requests to them, and the search for lost hosts.

#include "actors/process/control_plane.hpp"
#include "actors/process/launch_sites.hpp"
#include "actors/process/standing_node.hpp"
#include "actors/support/outside_sender.hpp"
#include "messages/core/error.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/job/build.hpp"
#include "runtime/process/host_address.hpp"
#include "runtime/process/run_succession.hpp"

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <utility>
#include <variant>

namespace troupe::actors {
namespace {

/// Timeout for a node that still ends the processes of another run, or holds them.
std::chrono::milliseconds patience_with_others(double suspicion) {
  const auto one = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(suspicion));
  return longest_hold(one) + 2 * one;
}

/// A host that comes back may have another address.
std::string newest_address(const std::string& name, const std::string& before) {
  try {
    return runtime::numeric_address(name);
  } catch (const runtime::input_error&) {
    return before;
  }
}

/// Maximum pause between searches for a lost node, in failure-detector timeouts; the pause doubles
/// each time.
constexpr int longest_search = 16;
/// Host number in the messages of the agent of the supervisor's own host, which starts no place.
constexpr int own_host = -1;

class other_hosts final : public launch_sites {
 public:
  other_hosts(messages::launcher_actor::pointer self,
              const launch_settings& settings,
              std::uint16_t port,
              int processes,
              const std::vector<messages::standing_node_actor>& nodes,
              const shared_resources& context,
              double suspicion,
              host_listener tell)
      : launch_sites(self,
                     settings,
                     port,
                     context,
                     processes,
                     suspicion,
                     settings.successor.empty() ? std::nullopt : std::optional(own_host)),
        run_(folder_.record().id),
        tell_(std::move(tell)),
        first_hosts_(runtime::hosts_of_processes(processes, hosts())),
        hosts_(nodes.size()) {
    std::vector<std::vector<int>> places(nodes.size());
    for (int p = 0; p < processes_; ++p)
      places[std::size_t(first_hosts_[std::size_t(p)])].push_back(p);
    for (std::size_t h = 0; h < nodes.size(); ++h) {
      at(int(h)).node = nodes[h];
      at(int(h)).has_answered = !nodes[h];
      if (!nodes[h])
        continue;
      self_->monitor(nodes[h]);
      ask_to_serve(int(h), std::move(places[h]));
      if (settings_.incarnation == 1)
        path_->send_later(self_,
                          messages::launcher_actor(self_),
                          part_of_suspicion(0.5),
                          messages::look_for_node{int(h), false});
    }
    is_ready_ = have_all_answered();
  }

  bool is_ready() const override { return is_ready_; }
  // A place may run twice when the previous launcher lost a host that came back; takes the newer
  // one.
  std::vector<filled_place> filled() const override {
    std::vector<filled_place> out;
    out.resize(std::size_t(processes_));
    const auto before = runtime::find_rendezvous(folder_);
    for (int p = 0; p < processes_; ++p) {
      auto& x = out[std::size_t(p)];
      x.agent = first_hosts_[std::size_t(p)];
      x.who.process = p;
      if (before && before->places.size() == out.size())
        x.who.incarnation = before->places[std::size_t(p)];
    }
    for (std::size_t h = 0; h < hosts_.size(); ++h)
      for (const auto& it : hosts_[h].running) {
        auto& x = out[std::size_t(it.who.process)];
        if (it.who.incarnation < x.who.incarnation)
          continue;
        x = {.who = it.who, .agent = int(h), .pid = it.pid};
      }
    return out;
  }
  std::vector<std::pair<int, std::string>> missing() const override {
    std::vector<std::pair<int, std::string>> out;
    for (std::size_t h = 0; h < hosts_.size(); ++h)
      if (!hosts_[h].serves())
        out.emplace_back(int(h),
                         hosts_[h].refusal.empty() ? name_of_host(int(h)) + " cannot be reached"
                                                   : hosts_[h].refusal);
    return out;
  }

  std::vector<int> agents() const override { return first_hosts_; }
  int spares() const override {
    return int(hosts_.size()) - 1 - *std::max_element(first_hosts_.begin(), first_hosts_.end());
  }
  std::vector<runtime::host_slots> hosts() const override {
    std::vector<runtime::host_slots> out;
    for (const auto& x : settings_.standing)
      out.push_back({x.name, x.slots, x.domain});
    return out;
  }
  // While a node still ends another run, it does not obey this one.
  void start(const launch_action::start& x) override {
    auto& to = at(x.agent);
    messages::start_node order{x.request, x.who};
    if (!to.serves())
      to.waiting.push_back(std::move(order));
    else
      path_->send(self_, to.node, order);
  }
  void kill(const launch_action::kill& x) override {
    if (const auto& to = at(x.agent).node)
      path_->send(self_, to, messages::kill_node{x.request, x.who});
  }
  bool end_agent(int agent) override {
    if (!at(agent).node)
      return false;
    path_->send(self_, at(agent).node, messages::dismiss{});
    return true;
  }
  void kill_agent(int agent) override {
    if (const auto& to = at(agent).node)
      path_->send(self_, to, messages::kill_agent{agent});
  }

  bool end_own_agent() override {
    if (!agent_ || !agent_->is_there())
      return true;
    if (std::exchange(ends_own_agent_, true))
      agent_->kill();
    else
      agent_->ask(runtime::end_agent{});
    return false;
  }

  // The standing node has already processed the messages that it passes on.
  agent_link::heard hear(const messages::agent_told& x) override {
    if (x.host == own_host)
      return hear_own_agent(x);
    if (x.host < 0 || x.host >= int(hosts_.size()))
      return {};
    if (x.gone) {
      at(x.host).running.clear();
      return {.lost = true};
    }
    auto answer = runtime::read_answer(x.answer);
    if (is_ready_)
      return at(x.host).serves() ? agent_link::heard{.answers = {std::move(answer)}}
                                 : agent_link::heard{};
    if (const auto* const died = std::get_if<runtime::process_died>(&answer))
      std::erase_if(at(x.host).running, [died](const auto& it) {
        return agent_name_of(it.who.process) == died->name && it.who.incarnation == died->which;
      });
    return {};  // an answer to the previous launcher
  }
  int host_of(const caf::actor_addr& x) const override {
    for (std::size_t h = 0; h < hosts_.size(); ++h)
      if (hosts_[h].node && hosts_[h].node.address() == x)
        return int(h);
    return -1;
  }

  void lose(int host) override {
    auto& x = at(host);
    x.node = nullptr;
    x.folder.clear();
    x.waiting.clear();
    x.running.clear();
    if (!std::exchange(x.is_looked_for, true)) {
      x.pause = 1;
      look_later(host);
    }
  }
  // A thread tests whether a node listens: CAF would block all other connects for the system's
  // timeout.
  void look(const messages::look_for_node& x) override {
    auto& lost = at(x.host);
    if (x.listens)
      return connect(x.host);
    if (!lost.is_looked_for) {
      if (lost.node && !lost.serves())
        runtime::log_info(
            " waiting for {}, which is still shutting down another run, or holds it for its "
            "successor",
            name_of_host(x.host));
      return;
    }
    if (lost.serves()) {
      lost.is_looked_for = false;
      return;
    }
    look_later(x.host);
    try {
      runtime::start_thread("search",
                            [tell = outside_sender(messages::launcher_actor(self_), path_),
                             host = x.host,
                             address = address_of(x.host).address,
                             port = address_of(x.host).port,
                             name = host_of_name(x.host),
                             patience = part_of_suspicion(0.5)] {
                              try {
                                runtime::require_listener(
                                    newest_address(name, address), port, patience);
                              } catch (const runtime::error&) {
                                return;
                              }
                              tell(messages::look_for_node{host, true});
                            })
          .detach();
    } catch (const runtime::error& refused) {
      runtime::log_warning(
          "{} will be searched for later: {}", name_of_host(x.host), refused.what());
    }
  }

  std::vector<int> serving() const override {
    std::vector<int> out;
    for (std::size_t h = 0; h < hosts_.size(); ++h)
      if (hosts_[h].node && hosts_[h].serves())
        out.push_back(int(h));
    return out;
  }
  void keep(int host, const messages::keep_run& x) override {
    path_->send(self_, at(host).node, x);
  }
  void keep(int host, messages::keep_ledger x) override {
    const auto end = x.at + x.lines.size();
    path_->request(self_, at(host).node, caf::infinite, std::move(x))
        .then([this, host, end](
                  const messages::ledger_kept& y) { tell_.kept(host, y.bytes, y.bytes == end); },
              [](const caf::error&) {});  // the node is gone; another event reports it
  }

  std::string name_of(int process, int agent) const override {
    return fmt::format("process:{} (node {})", process, address_of(agent).name);
  }
  std::string log_of(int process, int agent) const override {
    const auto& folder = hosts_[std::size_t(agent)].folder;
    return folder.empty() ? "none yet" : folder + "/logs/" + agent_name_of(process) + ".log there";
  }
  std::string name_of_host(int agent) const override {
    return "the node at " + address_of(agent).name;
  }

 private:
  struct host {
    messages::standing_node_actor node;  ///< null: lost
    std::string folder;                  ///< folder on that host; empty: it does not serve yet
    std::vector<messages::start_node> waiting;
    /// Processes started for an earlier launcher.
    std::vector<messages::standing_process> running;
    bool has_answered = false;  ///< to the first request to serve
    bool is_looked_for = false;
    int pause = 1;        ///< failure-detector timeouts until the next search
    std::string refusal;  ///< the last one

    bool serves() const { return !folder.empty(); }
  };

  host& at(int number) { return hosts_[std::size_t(number)]; }
  const standing_node_address& address_of(int number) const {
    return settings_.standing[std::size_t(number)];
  }
  std::string host_of_name(int number) const {
    return runtime::read_host_and_port(address_of(number).name).host;
  }
  // It starts no place, so its loss ends no process.
  agent_link::heard hear_own_agent(const messages::agent_told& x) const {
    auto out = agent_ ? agent_->hear(x) : agent_link::heard{};
    if (ends_own_agent_ && !agent_->is_there())
      tell_.ended();
    out.lost = false;
    return out;
  }

  void look_later(int number) {
    auto& x = at(number);
    path_->send_later(self_,
                      messages::launcher_actor(self_),
                      part_of_suspicion(x.pause),
                      messages::look_for_node{number, false});
    x.pause = std::min(2 * x.pause, longest_search);
  }

  void connect(int number) {
    if (at(number).node)
      return;
    find_standing_node(self_,
                       newest_address(host_of_name(number), address_of(number).address),
                       address_of(number).port,
                       part_of_suspicion(0.5),
                       [this, number](const messages::standing_node_actor& found) {
                         if (at(number).node)
                           return;
                         at(number).node = found;
                         self_->monitor(found);
                         ask_to_serve(number, {});
                       });
  }

  void ask_to_serve(int number, std::vector<int> places) {
    path_
        ->request(self_,
                  at(number).node,
                  settings_.incarnation == 1 && !at(number).is_looked_for
                      ? patience_with_others(suspicion_)
                      : part_of_suspicion(1),
                  messages::serve{.program = runtime::version_text(),
                                  .run = run_,
                                  .host = number,
                                  .places = std::move(places),
                                  .suspicion = suspicion_,
                                  .incarnation = settings_.incarnation,
                                  .succeeded = !settings_.successor.empty(),
                                  .address = settings_.address,
                                  .port = port_,
                                  .launcher = self_})
        .then([this, number](const messages::serving& x) { is_served(number, x); },
              [this, number](const caf::error& why) { is_refused(number, why); });
  }

  void is_served(int number, const messages::serving& x) {
    auto& it = at(number);
    if (!it.node)
      return has_answered(number);  // lost again
    it.folder = x.run;
    it.refusal.clear();
    it.pause = 1;
    tell_.serves(number, x.cores);
    if (!is_ready_) {
      for (const auto& one : x.running)
        if (one.who.process >= 0 && one.who.process < processes_)
          it.running.push_back(one);
      return has_answered(number);
    }
    for (const auto& one : x.running)  // other processes have their places
      path_->send(self_, it.node, messages::kill_stray(one.who));
    for (const auto& order : std::exchange(it.waiting, {}))
      path_->send(self_, it.node, order);
    if (it.is_looked_for)
      tell_.back(number);
  }

  void is_refused(int number, const caf::error& why) {
    auto& it = at(number);
    const auto told = fmt::format(
        "{} does not serve this run: {}", name_of_host(number), messages::text_of(why));
    if (it.node) {
      path_->send(
          self_, it.node, messages::dismiss{});  // it may have begun to serve and answer too late
      self_->demonitor(it.node.address());
    }
    if (messages::is(why, messages::ec::superseded))
      tell_.superseded(told);
    if (!is_ready_) {
      it.node = nullptr;
      it.refusal = told;
      return has_answered(number);
    }
    if (!it.is_looked_for) {
      tell_.refused(number, told);
      return lose(number);
    }
    it.node = nullptr;  // it may still end its part of this run, or serve another one
    if (std::exchange(it.refusal, told) != told)
      runtime::log_info(" {}; asking again", told);
  }

  void has_answered(int number) {
    at(number).has_answered = true;
    if (is_ready_ || !have_all_answered())
      return;
    is_ready_ = true;
    kill_strays();
    tell_.ready();
  }
  bool have_all_answered() const {
    return std::all_of(hosts_.begin(), hosts_.end(), [](const auto& x) { return x.has_answered; });
  }
  void kill_strays() {
    const auto all = filled();
    for (auto& x : hosts_)
      for (const auto& it : x.running)
        if (const auto& in = all[std::size_t(it.who.process)];
            in.who != it.who || in.agent != int(&x - hosts_.data()))
          path_->send(self_, x.node, messages::kill_stray(it.who));
  }

  const std::string run_;
  const host_listener tell_;
  const std::vector<int> first_hosts_;  ///< by place
  std::vector<host> hosts_;
  bool is_ready_ = false;
  bool ends_own_agent_ = false;
};

}  // namespace

std::unique_ptr<launch_sites> sites_of_standing_nodes(
    messages::launcher_actor::pointer self,
    const launch_settings& settings,
    std::uint16_t port,
    int processes,
    const std::vector<messages::standing_node_actor>& nodes,
    const shared_resources& context,
    double suspicion,
    host_listener tell) {
  return std::make_unique<other_hosts>(
      self, settings, port, processes, nodes, context, suspicion, std::move(tell));
}

}  // namespace troupe::actors

#include "actors/simulation/virtual_agent.hpp"

#include "actors/job/every_actor.hpp"
#include "actors/node/hang_watch.hpp"
#include "actors/node/node.hpp"
#include "actors/process/connector.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors::simulation {
namespace {

/// Probability that the host reports a death; otherwise only broken connections show it.
constexpr double tells = 0.7;

}  // namespace

virtual_hosts::virtual_hosts(virtual_network& network,
                             int processes,
                             int hosts,
                             std::shared_ptr<const message_path> messages,
                             runtime::recovery_settings recovery,
                             std::function<node_context()> told,
                             int hosts_in_rack)
    : network_(network),
      messages_(std::move(messages)),
      recovery_(recovery),
      told_(std::move(told)),
      all_(std::size_t(processes)) {
  for (int i = 0; i < hosts; ++i)
    hosts_.push_back(&network_.add_host(
        hosts_in_rack > 0 ? fmt::format("rack-{}", i / hosts_in_rack) : std::string()));
  network_.on_killed([this](virtual_process& x) { lose(x); });
}

virtual_hosts::~virtual_hosts() {
  network_.on_killed({});
}

std::vector<virtual_process*> virtual_hosts::living() const {
  std::vector<virtual_process*> out;
  for (const auto& x : all_)
    if (x.process != nullptr && !x.process->is_dead())
      out.push_back(x.process);
  return out;
}

std::string virtual_hosts::name_of(const virtual_process* x) const {
  for (std::size_t p = 0; p < all_.size(); ++p)
    if (x != nullptr && all_[p].process == x)
      return fmt::format("process:{}", p);
  return {};
}

void virtual_hosts::answer(int process, bool lived) {
  const auto& x = all_[std::size_t(process)];
  messages_->send_from_outside(x.asked.supervisor,
                               messages::process_started{.generation = x.asked.generation,
                                                         .process = process,
                                                         .incarnation = x.incarnation,
                                                         .lived = lived,
                                                         .host = x.process->host().name,
                                                         .domain = x.process->host().domain,
                                                         .node = x.node,
                                                         .connector = x.connector,
                                                         .where = {{process, x.incarnation}}});
}

void virtual_hosts::start(const messages::start_process& x) {
  auto& at = all_[std::size_t(x.process)];
  if (x.generation < at.asked.generation)
    return;  // of a superseded supervisor
  // launch_machine.hpp has the same rule: a second request by the same supervisor means that it
  // lost the process.
  const bool lost
      = value(at.asked.generation) != 0 && epoch_of(x.generation) == epoch_of(at.asked.generation);
  at.asked = x;
  if (at.starting || ended_)
    return;
  auto& world = network_.in();
  const bool stands = at.process != nullptr && !at.process->is_dead();
  if (stands && !lost)
    return answer(x.process, true);
  at.starting = true;
  if (stands) {  // not within a turn
    exchanged_.push_back(name_of(at.process));
    world.at(world.now_ns(),
             fmt::format("process {} is killed: its supervisor has lost it", x.process),
             [this, process = at.process] { network_.kill(*process); });
  }
  const auto start
      = network_.is_steady() ? longest_start_ns : network_.chance().below(longest_start_ns);
  world.at(world.now_ns() + start,
           fmt::format("process {} starts", x.process),
           [this, p = x.process] { come(p); });
}

void virtual_hosts::come(int process) {
  auto& at = all_[std::size_t(process)];
  at.starting = false;
  if (ended_)
    return;
  ++at.incarnation;
  auto& made = network_.add_process(*hosts_[std::size_t(process) % hosts_.size()], told_());
  at.process = &made;
  const std::shared_ptr<const node_context> context = made.context();
  if (!network_.is_steady()) {
    made.take_place({process, at.incarnation});
    at.connector = network_.in().system().spawn(
        connector, context->neighbours, connect_patience(recovery_.suspicion));
    network_.belongs(at.connector.id(), made);
  }
  at.node = network_.in().system().spawn(node, context, every_actor());
  network_.belongs(at.node.id(), made);
  const auto watch = watch_for_hangs(network_.in().system(),
                                     context,
                                     recovery_,
                                     {.node = at.node, .give_up = [this, &made](auto&) {
                                        network_.in().at(network_.in().now_ns(),
                                                         "a process ends: its node hangs",
                                                         [this, &made] { network_.kill(made); });
                                      }});
  if (watch)
    network_.belongs(watch.id(), made);
  // A process ends when its node fails.
  at.node->attach_functor([this, &made, watch, links = at.connector](const caf::error& reason) {
    if (watch)
      caf::anon_send_exit(watch, caf::exit_reason::user_shutdown);
    if (links)
      caf::anon_send_exit(links, caf::exit_reason::user_shutdown);
    if (reason && !ended_)
      network_.in().at(network_.in().now_ns(), "a process ends with its node", [this, &made] {
        network_.kill(made);
      });
  });
  answer(process, false);
}

void virtual_hosts::lose(const virtual_process& x) {
  const auto found = std::find_if(
      all_.begin(), all_.end(), [&](const hosted& one) { return one.process == &x; });
  if (found == all_.end() || found->starting
      || (!network_.is_steady() && !network_.chance().happens(tells)))
    return;
  const auto process = int(found - all_.begin());
  auto& world = network_.in();
  world.at(
      world.now_ns() + network_.chance().below(network_.how().network_latency_ns + 1),
      fmt::format("the host reports the death of process {}", process),
      [this, process, incarnation = found->incarnation] {
        const auto& to = all_[std::size_t(process)].asked;
        if (to.supervisor && !ended_)
          messages_->send_from_outside(
              to.supervisor,
              messages::process_died{to.generation, process, incarnation, "killed by signal 9"});
      });
}

// The supervisor has already shut down their nodes, unless it died first.
void virtual_hosts::end(const messages::shut_down& x) {
  ended_ = true;
  for (auto& one : all_) {
    one.asked = {};
    if (one.process != nullptr && !one.process->is_dead())
      messages_->send_from_outside(one.node, x);
    one.node = nullptr;
    one.connector = nullptr;
  }
}

messages::agent_actor::behavior_type virtual_agent(
    messages::agent_actor::stateful_pointer<virtual_agent_state> self, virtual_hosts* hosts) {
  return {[hosts](const messages::start_process& x) { hosts->start(x); },
          [self, hosts](const messages::shut_down& x) {
            hosts->end(x);
            self->quit();
          }};
}

}  // namespace troupe::actors::simulation

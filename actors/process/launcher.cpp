#include "actors/process/launcher.hpp"

#include "actors/process/control_plane.hpp"
#include "actors/process/data_planes.hpp"
#include "actors/support/guard.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/job/build.hpp"
#include "runtime/process/run_folder.hpp"

#include <caf/actor_system.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {
namespace {

/// Timeout for a started process to join. A start takes seconds on a machine that starts many
/// processes, however short the failure detector's timeout is.
std::chrono::milliseconds patience_with_starts(std::chrono::milliseconds suspicion) {
  return std::max<std::chrono::milliseconds>(3 * suspicion, std::chrono::seconds(15));
}

}  // namespace

void launcher_state::start(launch_settings settings,
                           messages::job_description told,
                           std::shared_ptr<const supervisor_resources> context,
                           std::vector<messages::standing_node_actor> standing) {
  settings_ = std::move(settings);
  told_ = std::move(told);
  context_ = std::move(context);
  run_ = runtime::run_folder::open(settings_.run).record().id;
  if (settings_.insecure)
    secret_ = secret_of(settings_.run);
  const auto& job = context_->jobs->open(told_)->job;
  self_->set_down_handler([this](const caf::down_msg& x) { lose(x); });
  port_ = publish(messages::rendezvous_actor(messages::launcher_actor(self_)), settings_.address);
  if (!settings_.standing.empty())
    find_places(job.layout.processes);
  // Lets processes find this launcher, and lets a successor find its incarnation even after this
  // process has died.
  if (!settings_.successor.empty())
    leave_rendezvous();
  if (standing.empty())
    sites_ = std::make_unique<launch_sites>(
        self_, settings_, port_, *context_, job.layout.processes, job.recovery.suspicion, 0);
  else
    sites_ = sites_of_standing_nodes(
        self_,
        settings_,
        port_,
        job.layout.processes,
        standing,
        *context_,
        job.recovery.suspicion,
        {.refused
         = [this](int host,
                  const std::string& why) { carry_out(machine_->host_refuses(host, why)); },
         .serves =
             [this](int host, int cores) {
               copy_run_to(host);
               compare_cores(host, cores);
             },
         .back = [this](int host) { find_host(host); },
         .kept = [this](int host, std::uint64_t bytes, bool all) { has_copied(host, bytes, all); },
         .superseded = [this](const std::string& why) { obeys_another(why); },
         .ready = [this] { take_up(); },
         .ended = [this] { carry_out(launch_action::quit{}); }});
  follow_ledger();
  machine_.emplace(sites_->agents(),
                   messages::process_name{-1, settings_.incarnation},
                   sites_->spares(),
                   sites_->hosts());
  if (sites_->is_ready())
    take_up();
}

std::chrono::milliseconds launcher_state::suspicion() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(context_->jobs->open(told_)->job.recovery.suspicion));
}

// --- what happens --------------------------------------------------------------------------------

void launcher_state::receive(const messages::start_process& x) {
  if (!begun_) {
    early_orders_.push_back(x);
    return;
  }
  auto& newest = asked_[x.process];
  if (x.generation >= newest.generation)
    newest = x;
  machine_->kept_in(context_->ledger->keepers());
  carry_out(machine_->wanted(x.process, x.generation, x.elsewhere));
}

caf::expected<messages::admitted> launcher_state::admit(const messages::join& x,
                                                        const caf::strong_actor_ptr& by) {
  const auto refused
      = [](std::string why) { return messages::make_error(messages::ec::refused, std::move(why)); };
  if (x.protocol != messages::process_protocol || x.program != runtime::version_text()) {
    auto why = fmt::format(
        "on {} the program is '{}' (protocol {}), and this run is of '{}' (protocol {}); give "
        "every host the same build",
        x.host,
        x.program,
        x.protocol,
        runtime::version_text(),
        messages::process_protocol);
    carry_out(machine_->withdrawn(x.who, why));
    return refused(std::move(why));
  }
  if (auto why = machine_->joins(x.who, x.pid); !why.empty())
    return refused(std::move(why));
  auto& it = known_[x.who];
  it.host = x.host;
  if (by) {
    it.joined_by = by->address();
    self_->monitor(caf::actor_cast<caf::actor>(by));
  }
  return context_->messages->checked(self_->home_system(),
                                     messages::admitted{told_, run_, secret_});
}

void launcher_state::receive(const messages::present& x) {
  const auto actions = machine_->present(x.where.who);
  if (!actions.empty())
    known_[x.where.who].here = x;
  carry_out(actions);
}

messages::withdrawn launcher_state::receive(const messages::withdraw& x) {
  carry_out(machine_->withdrawn(x.who, x.why));
  return context_->messages->checked(self_->home_system(), messages::withdrawn{x.who});
}

void launcher_state::receive(const messages::is_late& x) {
  if (!known_.contains(x.who))
    carry_out(machine_->late(
        x.who,
        fmt::format("it did not request the job within {} s",
                    std::chrono::duration<double>(patience_with_starts(suspicion())).count())));
}

void launcher_state::receive(const messages::agent_told& x) {
  const auto heard = sites_->hear(x);
  for (const auto& answer : heard.answers)
    std::visit([this, &x](const auto& what) { take(x.host, what); }, answer);
  if (!heard.lost)
    return;
  if (!machine_->is_over())
    runtime::log_warning("the host agent is gone ({}), and its processes with it", x.answer);
  carry_out(machine_->agent_gone(x.host, "the host agent is gone, which ends its processes"));
}

void launcher_state::take(int, const runtime::process_started& x) {
  carry_out(machine_->started(x.request, x.process.pid));
}

void launcher_state::take(int, const runtime::process_signalled& x) {
  carry_out(machine_->signalled(x.request));
}

// A host that a place has left reports deaths that no longer matter.
void launcher_state::take(int host, const runtime::process_died& x) {
  const int process = process_of(x.name);
  if (process >= 0 && machine_->agent_of(process) == host)
    carry_out(machine_->died({process, std::uint32_t(x.which)}, runtime::text_of(x.how)));
}

void launcher_state::take(int, const runtime::request_refused& x) {
  if (x.request != 0)
    return carry_out(machine_->refused(x.request, x.why));
  if (!machine_->is_over())
    runtime::log_warning("if this process fails, no successor will start: {}", x.why);
}

// The supervisor tells the nodes to end; when it has died, the launcher does.
void launcher_state::receive(const messages::shut_down& x) {
  settle_undecided();
  if (!machine_->is_over())
    for (const auto& who : machine_->here())
      context_->messages->send(self_, present_of(who)->node, x);
  context_->messages->send_later(self_, messages::launcher_actor(self_), suspicion(), x);
  carry_out(machine_->over());
  if (machine_->has_quit())
    carry_out(launch_action::quit{});  // finished, unless this host's own agent hangs
}

// --- what follows --------------------------------------------------------------------------------

void launcher_state::carry_out(const launch_actions& all) {
  for (const auto& one : all)
    std::visit([this](const auto& x) { carry_out(x); }, one);
}

const messages::present* launcher_state::present_of(const messages::process_name& who) const {
  const auto found = known_.find(who);
  return found == known_.end() ? nullptr : &found->second.here;
}

void launcher_state::carry_out(const launch_action::start& x) {
  std::string failure;
  try {
    note_start(x.who);
    return sites_->start(x);
  } catch (const runtime::error& of_agent) {
    failure = of_agent.what();
  }
  carry_out(machine_->refused(x.request, failure));
}

void launcher_state::carry_out(const launch_action::kill& x) {
  sites_->kill(x);
}

void launcher_state::carry_out(const launch_action::end_agent& x) {
  if (!sites_->end_agent(x.agent))
    carry_out(machine_->agent_gone(x.agent, "there is none"));
}

void launcher_state::carry_out(const launch_action::kill_agent& x) {
  sites_->kill_agent(x.agent);
}

void launcher_state::carry_out(const launch_action::forget& x) {
  const messages::forget gone{x.who, x.why};
  for (const auto& who : machine_->here())
    context_->messages->send(self_, present_of(who)->connector, gone);
  known_.erase(x.who);
}

// The host agent also ends the process if it stays without an owner.
void launcher_state::carry_out(const launch_action::abandon& x) {
  if (const auto* const it = present_of(x.who); it != nullptr && it->node)
    context_->messages->send(
        self_, it->node, messages::shut_down{asked_[x.who.process].generation});
}

void launcher_state::carry_out(const launch_action::tell_started& x) {
  const auto& to = asked_[x.who.process];
  const auto& it = known_[x.who];
  const auto& nodes = settings_.standing;
  const auto agent = std::size_t(machine_->agent_of(x.who.process));
  if (to.supervisor)
    context_->messages->send(
        self_,
        to.supervisor,
        messages::process_started{
            .generation = to.generation,
            .process = x.who.process,
            .incarnation = x.who.incarnation,
            .lived = x.lived,
            .host = it.host,
            .domain = agent < nodes.size() ? nodes[agent].domain : std::string(),
            .node = it.here.node,
            .connector = it.here.connector,
            .where = it.here.where});
}

void launcher_state::carry_out(const launch_action::tell_died& x) {
  const auto& to = asked_[x.who.process];
  if (to.supervisor)
    context_->messages->send(
        self_,
        to.supervisor,
        messages::process_died{to.generation, x.who.process, x.who.incarnation, x.how});
}

void launcher_state::carry_out(const launch_action::refuse& x) {
  const auto& to = asked_[x.who.process];
  if (!to.supervisor)
    return;
  context_->messages->send(
      self_,
      to.supervisor,
      messages::process_started{
          .generation = to.generation,
          .process = x.who.process,
          .incarnation = x.who.incarnation,
          .refusal = x.of_host ? x.why
                               : fmt::format("{}: {} (its log: '{}')",
                                             sites_->name_of(x.who.process, x.agent),
                                             x.why,
                                             sites_->log_of(x.who.process, x.agent))});
}

void launcher_state::carry_out(const launch_action::expect& x) {
  context_->messages->send_later(self_,
                                 messages::launcher_actor(self_),
                                 patience_with_starts(suspicion()),
                                 messages::is_late{x.who});
}

void launcher_state::carry_out(const launch_action::quit&) {
  if (!sites_->end_own_agent())
    return;
  self_->quit();
}

messages::launcher_actor::behavior_type launcher(
    messages::launcher_actor::stateful_pointer<launcher_state> self,
    launch_settings settings,
    messages::job_description told,
    std::shared_ptr<const supervisor_resources> context,
    std::vector<messages::standing_node_actor> standing) {
  end_on_exception(self, "launcher");
  self->state.start(std::move(settings), std::move(told), std::move(context), std::move(standing));
  return {[self](const messages::start_process& x) { self->state.receive(x); },
          [self](const messages::shut_down& x) { self->state.receive(x); },
          [self](const messages::join& x) { return self->state.receive(x); },
          [self](const messages::present& x) { self->state.receive(x); },
          [self](const messages::withdraw& x) { return self->state.receive(x); },
          [self](const messages::agent_told& x) { self->state.receive(x); },
          [self](const messages::is_late& x) { self->state.receive(x); },
          [self](const messages::look_for_node& x) { self->state.receive(x); },
          [self](const messages::ledger_written& x) { self->state.receive(x); },
          [self](const messages::round_decided& x) { self->state.receive(x); }};
}

}  // namespace troupe::actors

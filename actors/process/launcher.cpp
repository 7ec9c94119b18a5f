#include "actors/process/launcher.hpp"

#include "actors/process/control_plane.hpp"
#include "actors/support/guard.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/trainer/build.hpp"

#include <caf/actor_system.hpp>
#include <caf/send.hpp>

#include <charconv>
#include <csignal>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {
namespace {

constexpr auto listens_for = std::chrono::minutes(1);
/// Times the suspicion: within which a process that was started has to come and ask for the job.
constexpr int patience_with_starts = 3;
constexpr std::string_view node_prefix = "node-";

std::string agent_name_of(int process) {
  return fmt::format("{}{}", node_prefix, process);
}

/// -1: it is no process of a job.
int process_of(std::string_view agents_name) {
  int out = -1;
  if (agents_name.starts_with(node_prefix)) {
    agents_name.remove_prefix(node_prefix.size());
    std::from_chars(agents_name.data(), agents_name.data() + agents_name.size(), out);
  }
  return out;
}

/// Until the agent is gone, and its guard with it, which kills whom the agent has started.
void listen_to(runtime::agent_client& agent,
               std::chrono::milliseconds patience,
               const std::function<void(std::string answer, bool gone)>& tell) {
  try {
    for (;;)
      if (const auto answer = agent.next(listens_for))
        tell(runtime::text_of(*answer), false);
  } catch (const std::exception& end) {
    if (!agent.wait(patience)) {
      agent.kill();
      agent.wait(patience);
    }
    tell(end.what(), true);
  }
}

}  // namespace

// Whoever still runs is ended by the agent.
launcher_state::~launcher_state() {
  if (!agent_)
    return;
  try {
    agent_->ask(runtime::end_agent{});
  } catch (const runtime::error&) {
    // It is gone, and they are, too.
  }
  listener_.detach();  // it ends with the agent
}

void launcher_state::start(launch_settings settings,
                           messages::job_description told,
                           std::shared_ptr<const node_context> context,
                           messages::present home) {
  settings_ = std::move(settings);
  told_ = std::move(told);
  context_ = std::move(context);
  home_ = std::move(home);
  machine_.emplace(context_->jobs->open(told_)->job.layout.processes, home_.where.who);
  self_->set_down_handler([this](const caf::down_msg& x) { lose(x); });
  port_ = publish(messages::rendezvous_actor(messages::launcher_actor(self_)), settings_.address);
  start_agent();
}

std::chrono::milliseconds launcher_state::suspicion() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(context_->jobs->open(told_)->job.recovery.suspicion));
}

void launcher_state::start_agent() {
  agent_ = std::make_shared<runtime::agent_client>(
      runtime::agent_client::start(settings_.agent, settings_.run));
  // The thread ends with its agent, which it alone knows then; this actor may have ended before.
  auto listener = runtime::start_thread(
      "agent",
      [agent = agent_,
       number = ++agents_,
       patience = suspicion(),
       me = caf::actor_cast<caf::weak_actor_ptr>(self_->ctrl()),
       path = context_->messages] {
        listen_to(*agent, patience, [&](std::string answer, bool gone) {
          if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(me))
            path->send_from_outside(caf::actor_cast<messages::launcher_actor>(alive),
                                    messages::agent_told{number, std::move(answer), gone});
        });
      });
  listener_ = std::move(listener);
}

// An agent that is gone says so by its listener, and whoever was asked for is started by the next.
void launcher_state::ask_agent(const runtime::agent_request& what) {
  if (!agent_)
    start_agent();
  try {
    agent_->ask(what);
  } catch (const runtime::io_error&) {
  }
}

// --- what happens --------------------------------------------------------------------------------

void launcher_state::receive(const messages::start_process& x) {
  auto& newest = asked_[x.process];
  if (x.generation >= newest.generation)
    newest = x;
  carry_out(machine_->wanted(x.process, x.generation));
}

caf::result<messages::admitted> launcher_state::receive(const messages::join& x) {
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
  if (const auto sender = self_->current_sender()) {
    it.joined_by = sender->address();
    self_->monitor(caf::actor_cast<caf::actor>(sender));
  }
  return context_->messages->checked(self_->home_system(), messages::admitted{told_});
}

// It was asking, and is not heard of any more.
void launcher_state::lose(const caf::down_msg& x) {
  for (const auto& [who, it] : known_)
    if (it.joined_by == x.source)
      return carry_out(machine_->late(who, "nothing was heard of it any more while it prepared"));
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
        fmt::format("it has not asked for the job within {} s",
                    std::chrono::duration<double>(suspicion()).count() * patience_with_starts)));
}

void launcher_state::receive(const messages::agent_told& x) {
  if (x.agent != agents_)
    return;  // of one that was replaced
  if (!x.gone) {
    const auto answer = runtime::read_answer(x.answer);
    return std::visit([this](const auto& what) { take(what); }, answer);
  }
  agent_.reset();
  if (!machine_->is_over())
    runtime::log_warning("the host agent is gone ({}), and with it whom it has started", x.answer);
  carry_out(machine_->agent_gone("the host agent is gone, which ends whom it has started"));
}

void launcher_state::take(const runtime::process_started& x) {
  carry_out(machine_->started(x.request, x.which, x.process.pid));
}

void launcher_state::take(const runtime::process_signalled& x) {
  carry_out(machine_->signalled(x.request));
}

void launcher_state::take(const runtime::process_died& x) {
  carry_out(machine_->died(process_of(x.name), x.which, runtime::text_of(x.how)));
}

void launcher_state::take(const runtime::request_refused& x) {
  carry_out(machine_->refused(x.request, x.why));
}

void launcher_state::take(const runtime::agent_ended&) {
  machine_->agent_ends();
}

void launcher_state::take(const runtime::processes_listed&) {}

// Nodes end by their supervisor's word, or by this one where it has died.
void launcher_state::receive(const messages::shut_down& x) {
  if (!machine_->is_over())
    for (const auto& who : machine_->here())
      context_->messages->send(self_, present_of(who)->node, x);
  context_->messages->send_later(self_, messages::launcher_actor(self_), suspicion(), x);
  carry_out(machine_->over());
}

// --- what follows --------------------------------------------------------------------------------

void launcher_state::carry_out(const launch_actions& all) {
  for (const auto& one : all)
    std::visit([this](const auto& x) { carry_out(x); }, one);
}

const messages::present* launcher_state::present_of(const messages::process_name& who) const {
  if (who == home_.where.who)
    return &home_;
  const auto found = known_.find(who);
  return found == known_.end() ? nullptr : &found->second.here;
}

void launcher_state::carry_out(const launch_action::start& x) {
  std::string failure;
  try {
    ask_agent(runtime::start_process{
        .request = x.request,
        .name = agent_name_of(x.who.process),
        .command = settings_.node({x.who.process, x.who.incarnation, settings_.address, port_}),
        .environment = {},
        .output = runtime::run_folder::open(settings_.run).log_of(agent_name_of(x.who.process))});
    return;
  } catch (const runtime::error& of_agent) {
    failure = of_agent.what();
  }
  carry_out(machine_->refused(x.request, failure));
}

void launcher_state::carry_out(const launch_action::kill& x) {
  ask_agent(runtime::signal_process{x.request, agent_name_of(x.process), x.which, SIGKILL});
}

void launcher_state::carry_out(const launch_action::end_agent&) {
  if (!agent_)
    return carry_out(launch_action::quit{});
  ask_agent(runtime::end_agent{});
}

void launcher_state::carry_out(const launch_action::kill_agent&) {
  if (agent_)
    agent_->kill();
}

void launcher_state::carry_out(const launch_action::connect& x) {
  const auto* const by = present_of(x.by);
  const auto* const other = present_of(x.other);
  if (by == nullptr || other == nullptr)
    return;
  auto where = other->where;
  if (!x.calls)
    where.port = 0;
  context_->messages
      ->request(self_, by->connector, suspicion(), messages::connect_to{std::move(where)})
      .then(
          [this, x](const messages::connected& answer) {
            carry_out(machine_->connected(x.by, x.other, answer.failure));
          },
          [this, x](const caf::error&) { carry_out(machine_->unanswered(x.by, x.other)); });
}

void launcher_state::carry_out(const launch_action::forget& x) {
  const messages::forget gone{x.who, x.why};
  for (const auto& who : machine_->here())
    context_->messages->send(self_, present_of(who)->connector, gone);
  context_->messages->send(self_, home_.connector, gone);
  known_.erase(x.who);
}

void launcher_state::carry_out(const launch_action::tell_started& x) {
  const auto& to = asked_[x.who.process];
  const auto& it = known_[x.who];
  if (to.supervisor)
    context_->messages->send(self_,
                             to.supervisor,
                             messages::process_started{.generation = to.generation,
                                                       .process = x.who.process,
                                                       .incarnation = x.who.incarnation,
                                                       .lived = x.lived,
                                                       .host = it.host,
                                                       .node = it.here.node});
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
  const auto log = runtime::run_folder::open(settings_.run).log_of(agent_name_of(x.who.process));
  context_->messages->send(
      self_,
      to.supervisor,
      messages::process_started{
          .generation = to.generation,
          .process = x.who.process,
          .incarnation = x.who.incarnation,
          .refusal
          = fmt::format("process:{}: {} (its log: '{}')", x.who.process, x.why, log.string())});
}

void launcher_state::carry_out(const launch_action::expect& x) {
  context_->messages->send_later(self_,
                                 messages::launcher_actor(self_),
                                 suspicion() * patience_with_starts,
                                 messages::is_late{x.who});
}

void launcher_state::carry_out(const launch_action::quit&) {
  agent_.reset();
  self_->send_exit(home_.connector, caf::exit_reason::user_shutdown);
  self_->quit();
}

messages::launcher_actor::behavior_type launcher(
    messages::launcher_actor::stateful_pointer<launcher_state> self,
    launch_settings settings,
    messages::job_description told,
    std::shared_ptr<const node_context> context,
    messages::present home) {
  end_on_exception(self, "launcher");
  self->state.start(std::move(settings), std::move(told), std::move(context), std::move(home));
  return {[self](const messages::start_process& x) { self->state.receive(x); },
          [self](const messages::shut_down& x) { self->state.receive(x); },
          [self](const messages::join& x) { return self->state.receive(x); },
          [self](const messages::present& x) { self->state.receive(x); },
          [self](const messages::withdraw& x) { return self->state.receive(x); },
          [self](const messages::agent_told& x) { self->state.receive(x); },
          [self](const messages::is_late& x) { self->state.receive(x); }};
}

}  // namespace troupe::actors

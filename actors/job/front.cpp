#include "actors/job/front.hpp"

#include "actors/job/every_actor.hpp"
#include "actors/node/hang_watch.hpp"
#include "actors/node/node.hpp"
#include "actors/supervisor/restart_limits.hpp"
#include "actors/support/guard.hpp"
#include "actors/support/on_board.hpp"
#include "runtime/core/log.hpp"

#include <caf/actor_system.hpp>
#include <caf/system_messages.hpp>

#include <utility>

namespace troupe::actors {

front_state::~front_state() {
  stop_watch();
}

void front_state::start(messages::job_description told,
                        std::shared_ptr<const node_context> context,
                        std::function<void(const outcome&)> ended,
                        std::optional<lost_process> before) {
  told_ = std::move(told);
  context_ = std::move(context);
  ended_ = std::move(ended);
  recovery_ = context_->jobs->open(told_)->job.recovery;
  // Its only wait is for a writer of the ledger, which may hang.
  if (recovery_.on && context_->env.watches_lanes)
    place_ = context_->lanes->add({.who = name, .actor = self_->id(), .shares_thread = true});
  self_->set_down_handler(on_board<caf::down_msg>(
      self_, context_->messages, place_, [this](const caf::down_msg& x) { lose(x); }));
  spawn_node();
  if (context_->agent)
    self_->monitor(context_->agent);
  after_.epoch = context_->ledger->epoch();
  if (after_.epoch > 0 && !before)
    after_ = {after_.epoch, "all its processes are lost", true};
  if (before) {
    after_.noticed_ns = before->noticed_ns;
    replace(
        "supervisor",
        messages::make_error(messages::ec::protocol_violated, "supervisor: its process is gone"));
  } else {
    spawn_supervisor();
  }
}

void front_state::spawn_node() {
  auto& home = self_->home_system();
  node_ = home.spawn(node, context_, every_actor());
  self_->monitor(node_);
  stop_watch();
  watch_ = watch_for_hangs(home,
                           context_,
                           recovery_,
                           {.node = node_,
                            .front = messages::front_actor(self_),
                            .give_up = [tell = ended_](const std::string& why) {
                              tell(outcome{3, why});
                            }});
}

void front_state::stop_watch() {
  if (watch_)
    caf::anon_send_exit(watch_, caf::exit_reason::user_shutdown);
  watch_ = nullptr;
}

void front_state::spawn_supervisor() {
  supervisor_ = self_->home_system().spawn(
      supervisor, node_, told_, context_, messages::front_actor(self_), after_);
  after_.noticed_ns = 0;
  self_->monitor(supervisor_);
  context_->messages->introduce(node_, "node");
  context_->messages->introduce(supervisor_, "supervisor");
  if (drained_)  // requested while there was no supervisor
    context_->messages->send(self_, supervisor_, messages::drain{*drained_});
}

void front_state::receive(const messages::job_over& x) {
  // FRONT-1
  const bool stands
      = supervisor_
        && supervisor_.address() == caf::actor_cast<caf::actor_addr>(self_->current_sender());
  if (!over_ && stands)
    over_ = outcome{x.exit_code, x.why};
}

void front_state::receive(const messages::drain& x) {
  if (!drained_)
    drained_ = x.why;
  if (supervisor_)
    context_->messages->send(self_, supervisor_, x);
}

// A hung actor does not get messages, so it cannot die now: treats it as dead. It ends when it runs
// again.
void front_state::receive(const messages::suspected& x) {
  const auto reason = [&](const char* who) {
    return messages::make_error(messages::ec::protocol_violated, std::string(who) + ": " + x.why);
  };
  if (supervisor_ && supervisor_->id() == x.actor) {
    const auto why = reason("supervisor");
    self_->demonitor(supervisor_.address());
    self_->send_exit(supervisor_, why);
    lose(caf::down_msg{supervisor_.address(), why});
  } else if (node_ && node_->id() == x.actor) {
    const auto why = reason("node");
    self_->demonitor(node_.address());
    self_->send_exit(node_, why);
    if (const auto held = context_->held->get())  // NODE-3
      held->end();
    if (supervisor_)
      self_->send_exit(supervisor_, because_of("node", why));
    lose(caf::down_msg{node_.address(), why});
  }
}

// The node's death ends its supervisor, too: both are replaced when both are gone.
void front_state::lose(const caf::down_msg& x) {
  if (context_->agent && context_->agent.address() == x.source)
    return lose_agent(x.reason);
  const bool of_node = node_ && node_.address() == x.source;
  const bool of_supervisor = supervisor_ && supervisor_.address() == x.source;
  if (!of_node && !of_supervisor)
    return;
  if (!cause_)
    cause_ = x.reason;
  if (of_node)
    node_ = nullptr;
  else
    supervisor_ = nullptr;
  const bool node_is_dead
      = !node_ || caf::actor_cast<caf::actor>(node_)->getf(caf::abstract_actor::is_terminated_flag);
  const bool goes_on = recovery_.on && !over_;
  if (!goes_on) {
    if (of_supervisor && node_)
      shut_node_down();
    if (!node_ && !supervisor_)
      end();
    return;
  }
  if (supervisor_ || (node_ && node_is_dead))
    return;  // the end of the other one follows
  replace(node_ ? "supervisor" : "node", std::exchange(cause_, {}));
}

// The launcher cannot be replaced, and a supervisor would wait forever for processes.
void front_state::lose_agent(const caf::error& reason) {
  if (!reason || over_)
    return;
  over_ = outcome_of(reason);
  if (supervisor_)
    self_->send_exit(supervisor_, reason);
}

void front_state::replace(const std::string& who, const caf::error& reason) {
  auto& ledger = *context_->ledger;
  restart_counter restarts({.on = true,
                            .most = recovery_.max_restarts,
                            .window_ns = std::uint64_t(recovery_.window * 1e9)},
                           ledger.restarts());
  const auto why = messages::text_of(reason);
  const auto stop
      = restarts.add(who,
                     why,
                     ledger.newest() + 1,
                     std::uint64_t(self_->home_system().clock().now().time_since_epoch().count()));
  for (const auto& one : restarts.take_new())
    ledger.add(one);
  if (stop) {
    over_ = outcome{is(reason, messages::ec::refused) ? 2 : 3, *stop};
    if (!node_)
      return end();
    shut_node_down();
    return;
  }
  runtime::log_warning(
      "the {} died ({}); a successor takes over after iteration {}", who, why, ledger.newest());
  ++after_.epoch;
  after_.why = why;
  after_.is_cold = false;
  ledger.belongs_to(after_.epoch);  // LEDGER-3
  ledger.flush();                   // a later process's epoch is above this one
  if (!node_)
    spawn_node();
  spawn_supervisor();
}

void front_state::shut_node_down() {
  context_->messages->send_at_once(
      self_, node_, messages::shut_down{runtime::make_generation(after_.epoch, 1)});
}

// Viewers outlive node and supervisor, and first handle all messages that they got.
void front_state::end() {
  for (const auto& viewer : context_->watching->take())
    caf::anon_send(
        caf::actor_cast<caf::actor>(viewer),
        caf::exit_msg{viewer.address(), caf::make_error(caf::exit_reason::user_shutdown)});
  if (context_->agent)
    context_->messages->send_at_once(
        self_, context_->agent, messages::shut_down{runtime::make_generation(after_.epoch + 1, 0)});
  stop_watch();
  if (ended_)
    ended_(over_ ? *over_ : outcome_of(cause_));
  ended_ = {};
  self_->quit();
}

messages::front_actor::behavior_type front(
    messages::front_actor::stateful_pointer<front_state> self,
    messages::job_description told,
    std::shared_ptr<const node_context> context,
    std::function<void(const outcome&)> ended,
    std::optional<lost_process> before) {
  self->state.start(std::move(told), std::move(context), std::move(ended), before);
  return {receives<messages::job_over>(self),
          receives<messages::suspected>(self),
          receives<messages::drain>(self)};
}

}  // namespace troupe::actors

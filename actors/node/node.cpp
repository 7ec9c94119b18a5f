#include "actors/node/node.hpp"

#include "actors/checkpointer/checkpointer.hpp"
#include "actors/loader/loader.hpp"
#include "actors/monitor/monitor.hpp"
#include "actors/replica/replica.hpp"
#include "actors/stage/stage.hpp"
#include "actors/support/guard.hpp"

#include <caf/actor_system.hpp>
#include <caf/system_messages.hpp>

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {

// However the node ends, no actor keeps waiting for it, and none stays behind.
node_state::~node_state() {
  end_generation();
  for (const auto& actor : spawned_)
    caf::anon_send(
        actor,
        caf::exit_msg{actor.address(),
                      messages::make_error(messages::ec::cancelled, "the node has ended")});
}

void node_state::start(std::shared_ptr<const node_context> context) {
  context_ = std::move(context);
  end_on_exception(self_, "node");
  self_->set_down_handler([this](const caf::down_msg& x) { lose(x); });
}

void node_state::watch_root() {
  if (root_)
    return;
  root_ = caf::actor_cast<caf::actor>(self_->current_sender());
  context_->messages->monitor(self_, root_);
}

template <class Request>
caf::error node_state::admit(const Request& x) {
  watch_root();
  if (closing_ || x.generation < generation_)
    return messages::make_error(
        messages::ec::cancelled,
        fmt::format("NODE-1: nobody is spawned into a generation that is over; it was {}",
                    value(x.generation)));
  const auto opened = context_->jobs->open(x.job);
  if (x.generation > generation_) {
    end_generation();
    generation_ = x.generation;
    groups_ = std::make_shared<group_registry>(runtime::cancel_token(),
                                               value(generation_),
                                               opened->job.devices.exchange,
                                               context_->meeting);
  }
  context_->faults->inject("node", x.job.iteration + 1);
  return {};
}

template <class Answer, class Handle>
Answer node_state::answer(Handle spawned) {
  spawned_.push_back(caf::actor_cast<caf::actor>(spawned));
  self_->monitor(spawned);
  return context_->messages->checked(self_->home_system(), Answer{std::move(spawned)});
}

caf::result<messages::loader_spawned> node_state::spawn(const messages::spawn_loader& x) {
  if (auto refusal = admit(x))
    return refusal;
  auto& home = self_->home_system();
  return answer<messages::loader_spawned>(context_->own_threads
                                              ? home.spawn<caf::detached>(loader, context_)
                                              : home.spawn(loader, context_));
}

caf::result<messages::checkpointer_spawned> node_state::spawn(
    const messages::spawn_checkpointer& x) {
  if (auto refusal = admit(x))
    return refusal;
  auto& home = self_->home_system();
  const auto job = context_->jobs->open(x.job);
  return answer<messages::checkpointer_spawned>(
      context_->own_threads
          ? home.spawn<caf::detached>(checkpointer, x, job, context_, groups_->token())
          : home.spawn(checkpointer, x, job, context_, groups_->token()));
}

caf::result<messages::monitor_spawned> node_state::spawn(const messages::spawn_monitor& x) {
  if (auto refusal = admit(x))
    return refusal;
  auto& home = self_->home_system();
  const auto job = context_->jobs->open(x.job);
  return answer<messages::monitor_spawned>(
      context_->own_threads ? home.spawn<caf::detached>(monitor, x, job, context_)
                            : home.spawn(monitor, x, job, context_));
}

// Its death ends nothing, so it is not among those whose death ends the generation.
caf::result<messages::viewer_spawned> node_state::spawn(const messages::spawn_viewer& x) {
  if (auto refusal = admit(x))
    return refusal;
  const auto found = context_->viewers.find(x.name);
  if (found == context_->viewers.end())
    return messages::make_error(
        messages::ec::refused,
        fmt::format("the job wants a viewer '{}', which this process does not have: a function "
                    "cannot be sent, so register it here before the run",
                    x.name));
  try {
    return context_->messages->checked(
        self_->home_system(),
        messages::viewer_spawned{
            found->second(self_->home_system(), drain_by(x.supervisor, context_->messages))});
  } catch (...) {
    return reason_of("viewer " + x.name, std::current_exception());
  }
}

caf::result<messages::replica_spawned> node_state::spawn(const messages::spawn_replica& x) {
  if (auto refusal = admit(x))
    return refusal;
  return answer<messages::replica_spawned>(self_->home_system().spawn(replica, x, context_));
}

caf::result<messages::stage_spawned> node_state::spawn(const messages::spawn_stage& x) {
  if (auto refusal = admit(x))
    return refusal;
  return answer<messages::stage_spawned>(
      self_->home_system().spawn(stage, x, context_->jobs->open(x.job), context_, groups_));
}

void node_state::close_restored(const messages::all_restored& x) {
  if (x.generation == generation_ && context_->restored)
    context_->restored();
}

void node_state::end_generation() {
  if (!groups_)
    return;
  groups_->token().cancel();
  context_->transport->end_generation(generation_);
}

void node_state::shut_down() {
  closing_ = true;
  end_generation();
  stop_next();
}

void node_state::stop_next() {
  if (spawned_.empty())
    self_->quit();
  else
    self_->send_exit(spawned_.back(), caf::exit_reason::user_shutdown);
}

void node_state::lose(const caf::down_msg& x) {
  const auto who = std::find_if(spawned_.begin(), spawned_.end(), [&](const caf::actor& actor) {
    return actor.address() == x.source;
  });
  if (who != spawned_.end())
    spawned_.erase(who);
  if (root_ && root_.address() == x.source)
    return shut_down();
  if (closing_)
    stop_next();
  else  // those that work with the dead one must not wait for it; its supervisor decides the rest
    end_generation();
}

messages::node_actor::behavior_type node(messages::node_actor::stateful_pointer<node_state> self,
                                         std::shared_ptr<const node_context> context) {
  self->state.start(std::move(context));
  return {
      [self](const messages::spawn_loader& x) { return self->state.spawn(x); },
      [self](const messages::spawn_checkpointer& x) { return self->state.spawn(x); },
      [self](const messages::spawn_monitor& x) { return self->state.spawn(x); },
      [self](const messages::spawn_viewer& x) { return self->state.spawn(x); },
      [self](const messages::spawn_replica& x) { return self->state.spawn(x); },
      [self](const messages::spawn_stage& x) { return self->state.spawn(x); },
      [self](const messages::all_restored& x) { self->state.close_restored(x); },
      [self](messages::shut_down) { self->state.shut_down(); },
  };
}

}  // namespace troupe::actors

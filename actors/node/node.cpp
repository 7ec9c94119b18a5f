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
#include <utility>

namespace troupe::actors {

using messages::role;

// However the node ends, nobody keeps waiting for it, and nobody stays behind.
node_state::~node_state() {
  end_generation(generation_);
  for (const auto& actor : spawned_)
    caf::anon_send(
        actor,
        caf::exit_msg{actor.address(),
                      messages::make_error(messages::ec::cancelled, "the node has ended")});
}

void node_state::start(std::shared_ptr<const resources> shared) {
  shared_ = std::move(shared);
  end_on_exception(self_, "node");
  self_->set_down_handler([this](const caf::down_msg& x) { lose(x); });
}

caf::actor node_state::spawn(const messages::spawn& what, const caf::actor& by) {
  if (what.generation > generation_) {
    end_generation(generation_);
    generation_ = what.generation;
    groups_ = std::make_shared<group_registry>(
        runtime::cancel_token(), value(generation_), shared_->job.devices.exchange);
  }
  if (!supervisor_) {  // the first who asks is the root
    supervisor_ = by;
    self_->monitor(supervisor_);
  }
  shared_->faults->inject("node", shared_->first_iteration + 1);
  const auto actor = make(what, by);
  spawned_.push_back(actor);
  self_->monitor(actor);
  return actor;
}

caf::actor node_state::make(const messages::spawn& what, const caf::actor& by) {
  auto& home = self_->home_system();
  switch (what.who) {
    case role::loader:
      loader_ = home.spawn<caf::detached>(loader, shared_);
      return caf::actor_cast<caf::actor>(loader_);
    case role::checkpointer:
      checkpointer_
          = home.spawn<caf::detached>(checkpointer,
                                      caf::actor_cast<messages::supervisor_actor>(supervisor_),
                                      what.generation,
                                      shared_,
                                      groups_->token());
      return caf::actor_cast<caf::actor>(checkpointer_);
    case role::monitor:
      return caf::actor_cast<caf::actor>(home.spawn<caf::detached>(monitor, shared_));
    case role::replica:
      return caf::actor_cast<caf::actor>(
          home.spawn(replica,
                     replica_seat{what.generation,
                                  what.replica,
                                  messages::node_actor(self_),
                                  caf::actor_cast<messages::supervisor_actor>(by),
                                  loader_,
                                  checkpointer_},
                     shared_));
    case role::stage:
      return caf::actor_cast<caf::actor>(
          home.spawn(stage,
                     stage_seat{what.generation, what.replica, what.part, what.tensor},
                     shared_,
                     groups_));
  }
  throw runtime::broken_promise("NODE-1: a node is asked for a role that it knows");
}

void node_state::end_generation(runtime::generation_id which) {
  if (which < generation_ || !groups_)
    return;
  groups_->token().cancel();
  shared_->transport->end_generation(which);
}

void node_state::dismiss() {
  closing_ = true;
  end_generation(generation_);
  send_next_home();
}

void node_state::send_next_home() {
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
  if (supervisor_ && supervisor_.address() == x.source)
    return dismiss();
  if (closing_)
    send_next_home();
  else  // whoever works with the dead one must not wait for it; its supervisor decides the rest
    end_generation(generation_);
}

messages::node_actor::behavior_type node(messages::node_actor::stateful_pointer<node_state> self,
                                         std::shared_ptr<const resources> shared) {
  self->state.start(std::move(shared));
  return {
      [self](const messages::spawn& x) {
        return self->state.spawn(x, caf::actor_cast<caf::actor>(self->current_sender()));
      },
      [self](const messages::end_generation& x) { self->state.end_generation(x.generation); },
      [self](messages::dismiss) { self->state.dismiss(); },
  };
}

}  // namespace troupe::actors

#include "actors/node/node.hpp"

#include "actors/checkpointer/checkpointer.hpp"
#include "actors/keeper/keeper.hpp"
#include "actors/loader/loader.hpp"
#include "actors/monitor/monitor.hpp"
#include "actors/process/neighbours.hpp"
#include "actors/replica/replica.hpp"
#include "actors/shard_writer/save_folder.hpp"
#include "actors/shard_writer/shard_writer.hpp"
#include "actors/stage/stage.hpp"
#include "actors/support/guard.hpp"
#include "actors/support/on_board.hpp"
#include "runtime/core/log.hpp"

#include <caf/actor_system.hpp>
#include <caf/system_messages.hpp>

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <type_traits>
#include <utility>

namespace troupe::actors {
namespace {

/// With what it is at on the board.
template <class Message, class Self, class What>
auto takes(Self* self, What what) {
  return on_board<Message>(
      self, self->state.place(), [self, what](const Message& x) { return what(self->state, x); });
}

caf::actor_clock::duration_type seconds(double x) {
  return std::chrono::duration_cast<caf::actor_clock::duration_type>(
      std::chrono::duration<double>(x));
}

}  // namespace

// However the node ends, no actor keeps waiting for it, and none stays behind.
node_state::~node_state() {
  place_.reset();
  if (context_)
    context_->living->no_longer_tells(this);
  held_->end();
}

void node_state::start(std::shared_ptr<const node_context> context) {
  context_ = std::move(context);
  end_on_exception(self_, "node");
  if (context_->watches_lanes)
    place_ = context_->lanes->add({.who = "node", .actor = self_->id(), .shares_thread = true});
  self_->set_down_handler([this](const caf::down_msg& x) {
    const auto turn = take_turn("down_msg");
    lose(x);
  });
  self_->set_exit_handler([this](const caf::exit_msg& x) {
    const auto turn = take_turn("exit_msg");
    if (x.reason && !context_->faults->hang_instead("node"))
      self_->quit(x.reason);
  });
  held_->services(services_);
  context_->held->set(held_);
  context_->living->on_leave(
      this,
      [weak = caf::actor_cast<caf::weak_actor_ptr>(self_->ctrl()), path = context_->messages] {
        if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(weak))
          path->send_from_outside(caf::actor_cast<messages::node_actor>(alive),
                                  messages::look_again{});
      });
  if (place_)
    place_->describe_by([this] { return waits_for(); });
}

void node_state::watch_root() {
  if (root_)
    return;
  root_ = caf::actor_cast<caf::actor>(self_->current_sender());
  context_->messages->monitor(self_, root_);
}

group_registry::join_between_processes node_state::groups_between_processes(
    runtime::process_map placed) const {
  if (!context_->neighbours)
    return {};
  return [placed, by = context_->neighbours](
             const group_place& x,
             std::uint64_t generation,
             const runtime::cancel_token& until) -> std::unique_ptr<runtime::communicator> {
    std::vector<int> homes;
    for (const int rank : x.members)
      homes.push_back(placed.process_of(rank));
    if (std::all_of(homes.begin(), homes.end(), [&](int p) { return p == by->self().process; }))
      return nullptr;
    return by->join({.name = x.name,
                     .along = x.along,
                     .generation = runtime::generation_id(generation),
                     .members = x.names},
                    homes,
                    x.rank,
                    until);
  };
}

template <class Request>
caf::error node_state::admit(const Request& x) {
  if (is_of_the_past(x.generation))
    return messages::make_error(messages::ec::cancelled, "NODE-3: a newer supervisor is obeyed");
  if constexpr (!std::is_same_v<Request, messages::spawn_stage>)  // which replicas ask for
    watch_root();
  if (closing_ || x.generation < generation_ || x.generation <= ended_)
    return messages::make_error(
        messages::ec::cancelled,
        fmt::format("NODE-1: nobody is spawned into a generation that is over; it was {}",
                    value(x.generation)));
  const auto opened = context_->jobs->open(x.job);
  recovery_ = opened->job.recovery;
  if (x.generation > generation_) {
    release_generation();
    generation_ = x.generation;
    groups_ = std::make_shared<group_registry>(runtime::cancel_token(),
                                               value(generation_),
                                               opened->job.devices.exchange,
                                               context_->meeting,
                                               groups_between_processes(opened->placed()));
    held_->release_by([groups = groups_, by = context_->transport, generation = generation_] {
      groups->token().cancel();
      by->end_generation(generation);
    });
  }
  context_->faults->inject("node", x.job.iteration + 1);
  return {};
}

template <class Answer, class Handle>
Answer node_state::answer(Handle spawned, kind what, std::string name) {
  const auto actor = caf::actor_cast<caf::actor>(spawned);
  context_->faults->enlist(
      name, [weak = caf::actor_cast<caf::weak_actor_ptr>(actor), name](const std::string& why) {
        if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(weak))
          caf::anon_send(caf::actor_cast<caf::actor>(alive),
                         caf::exit_msg{alive->address(),
                                       messages::make_error(messages::ec::protocol_violated,
                                                            name + ": " + why)});
      });
  spawned_.push_back({actor, generation_, what, std::move(name)});
  if (!held_->add(actor))  // NODE-3
    self_->send_exit(actor, caf::exit_reason::user_shutdown);
  context_->messages->monitor(self_, actor);
  return context_->messages->checked(self_->home_system(), Answer{std::move(spawned)});
}

caf::result<messages::loader_spawned> node_state::spawn(const messages::spawn_loader& x) {
  if (auto refusal = admit(x))
    return refusal;
  auto& home = self_->home_system();
  return answer<messages::loader_spawned>(
      context_->own_threads ? home.spawn<caf::detached>(loader, context_, x.generation)
                            : home.spawn(loader, context_, x.generation),
      kind::service,
      "loader");
}

caf::result<messages::keeper_spawned> node_state::spawn(const messages::spawn_keeper& x) {
  if (auto refusal = admit(x))
    return refusal;
  auto& home = self_->home_system();
  const auto job = context_->jobs->open(x.job);
  keeps_for_ = x.process;
  return answer<messages::keeper_spawned>(
      context_->own_threads ? home.spawn<caf::detached>(keeper, x, job, context_, services_)
                            : home.spawn(keeper, x, job, context_, services_),
      kind::service,
      "keeper");
}

caf::result<messages::checkpointer_spawned> node_state::spawn(
    const messages::spawn_checkpointer& x) {
  if (auto refusal = admit(x))
    return refusal;
  auto& home = self_->home_system();
  const auto job = context_->jobs->open(x.job);
  // It ends with the epoch, or alone when it hangs.
  const runtime::cancel_token ends;
  auto answered = answer<messages::checkpointer_spawned>(
      context_->own_threads ? home.spawn<caf::detached>(checkpointer, x, job, context_, ends)
                            : home.spawn(checkpointer, x, job, context_, ends),
      kind::service,
      "checkpointer");
  spawned_.back().ends = ends;
  spawned_.back().with_epoch = services_.on_cancel([ends] { ends.cancel(); });
  return answered;
}

// What a host does not see is told before the first step. Later it is a disk that refuses.
caf::result<messages::shard_writer_spawned> node_state::spawn(
    const messages::spawn_shard_writer& x) {
  if (auto refusal = admit(x))
    return refusal;
  if (const auto why = obstacle_to_saving(x, context_->jobs->open(x.job)->job.checkpoints.save))
    return messages::make_error(messages::ec::refused, *why);
  auto& home = self_->home_system();
  // It ends with the epoch, or alone when it hangs.
  const runtime::cancel_token ends;
  auto answered = answer<messages::shard_writer_spawned>(
      context_->own_threads ? home.spawn<caf::detached>(shard_writer, x, context_, ends)
                            : home.spawn(shard_writer, x, context_, ends),
      kind::service,
      shard_writer_state::name);
  spawned_.back().ends = ends;
  spawned_.back().with_epoch = services_.on_cancel([ends] { ends.cancel(); });
  return answered;
}

caf::result<messages::monitor_spawned> node_state::spawn(const messages::spawn_monitor& x) {
  if (auto refusal = admit(x))
    return refusal;
  auto& home = self_->home_system();
  const auto job = context_->jobs->open(x.job);
  return answer<messages::monitor_spawned>(
      context_->own_threads ? home.spawn<caf::detached>(monitor, x, job, context_)
                            : home.spawn(monitor, x, job, context_),
      kind::service,
      "monitor");
}

// Its death ends nothing. It outlives node and supervisor: a successor that asks gets the same.
caf::result<messages::viewer_spawned> node_state::spawn(const messages::spawn_viewer& x) {
  if (auto refusal = admit(x))
    return refusal;
  if (const auto known = context_->watching->find(x.name))
    return context_->messages->checked(self_->home_system(), messages::viewer_spawned{*known});
  const auto found = context_->viewers.find(x.name);
  if (found == context_->viewers.end())
    return messages::make_error(
        messages::ec::refused,
        fmt::format("the job wants a viewer '{}', which this process does not have: a function "
                    "cannot be sent, so register it here before the run",
                    x.name));
  try {
    const auto viewer = found->second(
        self_->home_system(),
        context_->drain ? context_->drain : drain_by(x.supervisor, context_->messages));
    context_->watching->add(x.name, viewer);
    return context_->messages->checked(self_->home_system(), messages::viewer_spawned{viewer});
  } catch (...) {
    return reason_of("viewer " + x.name, std::current_exception());
  }
}

caf::result<messages::replica_spawned> node_state::spawn(const messages::spawn_replica& x) {
  if (auto refusal = admit(x))
    return refusal;
  return answer<messages::replica_spawned>(self_->home_system().spawn(replica, x, context_),
                                           kind::rank,
                                           fmt::format("replica:{}", x.replica));
}

caf::result<messages::stage_spawned> node_state::spawn(const messages::spawn_stage& x) {
  if (auto refusal = admit(x))
    return refusal;
  return answer<messages::stage_spawned>(
      self_->home_system().spawn(stage, x, context_->jobs->open(x.job), context_, groups_),
      kind::rank,
      fmt::format("stage:{}.{}.{}", x.replica, x.pipeline_rank, x.tensor_rank));
}

void node_state::close_restored(const messages::all_restored& x) {
  if (x.generation == generation_ && context_->restored)
    context_->restored();
}

void node_state::release_generation() {
  if (!groups_)
    return;
  groups_->token().cancel();
  context_->transport->end_generation(generation_);
}

// All older epochs end with a successor's first order (number 0): their services with them.
bool node_state::ends_with(const spawned_actor& x, runtime::generation_id last) const {
  return x.generation <= last && (x.what == kind::rank || runtime::number_of(last) == 0);
}

caf::result<messages::generation_ended> node_state::end(const messages::end_generation& x) {
  if (is_of_the_past(x.last))
    return messages::make_error(messages::ec::cancelled, "NODE-3: a newer supervisor is obeyed");
  if (number_of(x.last) == 0) {
    std::exchange(services_, runtime::cancel_token()).cancel();
    held_->services(services_);
  }
  if (number_of(x.last) == 0)
    root_ = nullptr;  // a successor, whose predecessor's death we may not have heard of yet
  watch_root();
  job_ = context_->jobs->open(x.job);
  recovery_ = job_->job.recovery;
  ended_ = std::max(ended_, x.last);
  if (generation_ <= x.last)
    release_generation();
  auto promise = self_->make_response_promise<messages::generation_ended>();
  const auto now = self_->clock().now();
  ending_ = ending{x.last, promise, now + seconds(recovery_.suspicion)};
  for (const auto& one : spawned_)
    if (ends_with(one, x.last))
      self_->send_exit(one.actor, caf::exit_reason::user_shutdown);
  context_->messages->send_later(self_,
                                 messages::node_actor(self_),
                                 seconds(recovery_.suspicion) + std::chrono::milliseconds(1),
                                 messages::look_again{x.last});
  answer_if_ended();
  return promise;
}

void node_state::look_again(const messages::look_again&) {
  answer_if_ended();
}

// NODE-2: actors gone, lanes ended, or left behind with a copy of what they might write to.
void node_state::answer_if_ended() {
  if (!ending_)
    return;
  const auto last = ending_->last;
  const bool late = self_->clock().now() >= ending_->deadline;
  const bool present = std::any_of(
      spawned_.begin(), spawned_.end(), [&](const auto& x) { return ends_with(x, last); });
  auto living = context_->living->until(last);
  std::erase_if(living, [&](const auto& x) {
    return (x.service && number_of(last) != 0) || left_behind_.contains({x.generation, x.who});
  });
  const bool known = std::all_of(living.begin(), living.end(), [this](const auto& x) {
    return hung_.contains({x.generation, x.who});
  });
  if (!late && (present || !known))
    return;  // NODE-2
  context_->lanes->leave_behind_until(value(last), number_of(last) == 0);
  messages::generation_ended answer{.last = last};
  std::set<int> left_behind;
  for (const auto& x : living) {
    answer.hung.push_back(x.who);
    left_behind_.emplace(x.generation, x.who);
    if (x.rank >= 0)
      left_behind.insert(x.rank);
  }
  for (const int rank : left_behind)
    if (context_->bug != planted_bug::share_estate)
      context_->estates->leave_behind(rank);
  if (const auto steps = context_->estates->common()) {
    answer.has_state = true;
    answer.ranks = context_->estates->ranks();
    answer.oldest = steps->first;
    answer.newest = steps->second;
  }
  if (keeps_for_) {
    const auto ranks = job_->placed();
    answer.keeps_for = *keeps_for_;
    answer.kept
        = context_->kept->iterations(ranks.first_of(*keeps_for_), ranks.end_of(*keeps_for_));
  }
  auto promise = std::move(ending_->promise);
  ending_.reset();
  promise.deliver(context_->messages->checked(self_->home_system(), std::move(answer)));
}

// A supervisor of an older epoch has nothing to say.
void node_state::shut_down(const messages::shut_down& x) {
  if (epoch_of(x.generation) >= epoch_of(std::max(generation_, ended_)))
    close();
}

void node_state::close() {
  closing_ = true;
  services_.cancel();
  release_generation();
  stop_next();
}

void node_state::stop_next() {
  if (spawned_.empty())
    self_->quit();
  else
    self_->send_exit(spawned_.back().actor, caf::exit_reason::user_shutdown);
}

void node_state::lose(const caf::down_msg& x) {
  const auto who = std::find_if(spawned_.begin(), spawned_.end(), [&](const spawned_actor& one) {
    return one.actor.address() == x.source;
  });
  const bool member
      = who != spawned_.end() && who->what == kind::rank && who->generation == generation_;
  if (who != spawned_.end())
    spawned_.erase(who);
  if (root_ && root_.address() == x.source) {
    root_ = nullptr;
    if (!recovery_.on)
      return close();
    release_generation();  // a successor says what follows
    return answer_if_ended();
  }
  if (closing_)
    return stop_next();
  if (member)  // those that work with the dead one must not wait for it; its supervisor decides
    release_generation();
  answer_if_ended();
}

messages::node_actor::behavior_type node(messages::node_actor::stateful_pointer<node_state> self,
                                         std::shared_ptr<const node_context> context) {
  self->state.start(std::move(context));
  return {
      takes<messages::spawn_loader>(self,
                                    [](node_state& node, const auto& x) { return node.spawn(x); }),
      takes<messages::spawn_keeper>(self,
                                    [](node_state& node, const auto& x) { return node.spawn(x); }),
      takes<messages::spawn_checkpointer>(
          self, [](node_state& node, const auto& x) { return node.spawn(x); }),
      takes<messages::spawn_shard_writer>(
          self, [](node_state& node, const auto& x) { return node.spawn(x); }),
      takes<messages::spawn_monitor>(self,
                                     [](node_state& node, const auto& x) { return node.spawn(x); }),
      takes<messages::spawn_viewer>(self,
                                    [](node_state& node, const auto& x) { return node.spawn(x); }),
      takes<messages::spawn_replica>(self,
                                     [](node_state& node, const auto& x) { return node.spawn(x); }),
      takes<messages::spawn_stage>(self,
                                   [](node_state& node, const auto& x) { return node.spawn(x); }),
      takes<messages::end_generation>(self,
                                      [](node_state& node, const auto& x) { return node.end(x); }),
      takes<messages::look_again>(
          self, [](node_state& node, const auto& x) { return node.look_again(x); }),
      takes<messages::suspected>(self,
                                 [](node_state& node, const auto& x) { return node.suspect(x); }),
      takes<messages::all_restored>(
          self, [](node_state& node, const auto& x) { return node.close_restored(x); }),
      takes<messages::shut_down>(self,
                                 [](node_state& node, const auto& x) { return node.shut_down(x); }),
  };
}

}  // namespace troupe::actors

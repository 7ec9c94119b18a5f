// Spawning actors for a generation.

#include "actors/checkpointer/checkpointer.hpp"
#include "actors/keeper/keeper.hpp"
#include "actors/loader/loader.hpp"
#include "actors/monitor/monitor.hpp"
#include "actors/node/node.hpp"
#include "actors/process/neighbours.hpp"
#include "actors/replica/replica.hpp"
#include "actors/shard_writer/save_folder.hpp"
#include "actors/shard_writer/shard_writer.hpp"
#include "actors/stage/stage.hpp"
#include "actors/support/guard.hpp"
#include "messages/core/error.hpp"

#include <caf/actor_system.hpp>
#include <caf/system_messages.hpp>

#include <algorithm>
#include <fmt/format.h>
#include <type_traits>
#include <utility>

namespace troupe::actors {

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
    return messages::make_error(messages::ec::cancelled,
                                "NODE-3: a newer supervisor has taken over");
  if constexpr (!std::is_same_v<Request, messages::spawn_stage>)  // sent by replicas
    watch_root();
  if (closing_ || x.generation < generation_ || x.generation <= ended_)
    return messages::make_error(
        messages::ec::cancelled,
        fmt::format("NODE-1: cannot spawn an actor: generation {} is over", value(x.generation)));
  const auto opened = context_->jobs->open(x.job);
  recovery_ = opened->job.recovery;
  if (x.generation > generation_) {
    release_generation();
    generation_ = x.generation;
    groups_ = context_->env.make_groups(value(generation_),
                                        opened->job.devices.exchange,
                                        groups_between_processes(opened->placed()));
    held_->release_by([groups = groups_, by = context_->transport, generation = generation_] {
      groups->token().cancel();
      by->end_generation(generation);
    });
  }
  return {};
}

template <class Answer, class Handle>
Answer node_state::answer(Handle spawned, kind what, std::string name) {
  const auto actor = caf::actor_cast<caf::actor>(spawned);
  context_->messages->introduce(actor, name);
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
      context_->env.own_threads ? home.spawn<caf::detached>(loader, context_, x.generation)
                                : home.spawn(loader, context_, x.generation),
      kind::service,
      "loader");
}

caf::result<messages::keeper_spawned> node_state::spawn(const messages::spawn_keeper& x) {
  if (auto refusal = admit(x))
    return refusal;
  auto& home = self_->home_system();
  const auto job = context_->jobs->open(x.job);
  for (const auto& one : spawned_)  // the old keeper served another process's ranks
    if (one.what == kind::service && one.name == "keeper")
      self_->send_exit(one.actor, caf::exit_reason::user_shutdown);
  return answer<messages::keeper_spawned>(
      context_->env.own_threads ? home.spawn<caf::detached>(keeper, x, job, context_, services_)
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
  // Cancelled with the epoch, or alone when the actor hangs.
  const runtime::cancel_token ends;
  auto answered = answer<messages::checkpointer_spawned>(
      context_->env.own_threads ? home.spawn<caf::detached>(checkpointer, x, job, context_, ends)
                                : home.spawn(checkpointer, x, job, context_, ends),
      kind::service,
      "checkpointer");
  spawned_.back().ends = ends;
  spawned_.back().with_epoch = services_.on_cancel([ends] { ends.cancel(); });
  return answered;
}

// Reports a folder that this host cannot see before the first step. Later failures are disk errors.
caf::result<messages::shard_writer_spawned> node_state::spawn(
    const messages::spawn_shard_writer& x) {
  if (auto refusal = admit(x))
    return refusal;
  if (const auto why = obstacle_to_saving(x))
    return messages::make_error(messages::ec::refused, *why);
  auto& home = self_->home_system();
  // Cancelled with the epoch, or alone when the actor hangs.
  const runtime::cancel_token ends;
  auto answered = answer<messages::shard_writer_spawned>(
      context_->env.own_threads ? home.spawn<caf::detached>(shard_writer, x, context_, ends)
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
      context_->env.own_threads ? home.spawn<caf::detached>(monitor, x, job, context_)
                                : home.spawn(monitor, x, job, context_),
      kind::service,
      "monitor");
}

// A viewer's failure is ignored. It outlives the node and the supervisor: a new supervisor gets the
// same viewer.
caf::result<messages::viewer_spawned> node_state::spawn(const messages::spawn_viewer& x) {
  if (auto refusal = admit(x))
    return refusal;
  if (const auto known = context_->watching->find(x.name))
    return context_->messages->checked(self_->home_system(), messages::viewer_spawned{*known});
  const auto found = context_->viewers.find(x.name);
  if (found == context_->viewers.end())
    return messages::make_error(
        messages::ec::refused,
        fmt::format("the job has a viewer '{}' that this process does not know: functions "
                    "cannot be sent; register it in this process before the run",
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
      "stage:" + x.place);
}

}  // namespace troupe::actors

// Spawns actors for a generation, and the behaviour of the node.

#include "actors/host/neighbours.hpp"
#include "actors/node/node.hpp"
#include "actors/support/guard.hpp"
#include "actors/support/on_board.hpp"
#include "messages/core/error.hpp"
#include "runtime/collective/staged_communicator.hpp"
#include "runtime/device/backend_kind.hpp"

#include <caf/actor_system.hpp>
#include <caf/system_messages.hpp>

#include <algorithm>
#include <fmt/format.h>
#include <tuple>
#include <type_traits>
#include <utility>

namespace troupe::actors {
namespace {

/// Wraps a handler: reports the current message on the lane board.
template <class Message, class Self, class What>
auto takes(Self* self, What what) {
  return on_board<Message>(
      self, self->state.path(), self->state.place(), [self, what](const Message& x) {
        return what(self->state, x);
      });
}

/// A handler of the branch.
template <class Message, class Self>
auto in_tree(Self* self) {
  return takes<Message>(self, [](auto& node, const auto& x) { node.in_tree().receive(x); });
}

}  // namespace

group_registry::join_between_processes node_state::groups_between_processes(
    const opened_job& job) const {
  if (!context_->neighbours)
    return {};
  return [on_device = job.job.backend == runtime::backend_kind::cuda, by = context_->neighbours](
             const group_place& x,
             std::uint64_t generation,
             const runtime::cancel_token& until) -> std::unique_ptr<runtime::communicator> {
    if (std::ranges::all_of(x.processes, [&](int p) { return p == by->self().process; }))
      return nullptr;
    auto out = by->join({.name = x.name,
                         .along = x.along,
                         .generation = runtime::generation_id(generation),
                         .members = x.names()},
                        x.processes,
                        x.rank,
                        until);
    if (on_device)
      return std::make_unique<runtime::staged_communicator>(
          std::move(out), by->shared_memory(), x.beside);
    return out;
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
  job_ = context_->jobs->open(x.job);
  recovery_ = job_->job.recovery;
  if (x.generation > generation_) {
    release_generation();
    generation_ = x.generation;
    groups_ = context_->env.make_groups(
        value(generation_), job_->job.devices.exchange, groups_between_processes(*job_));
    if (context_->neighbours)
      context_->neighbours->when_forgotten(
          [groups = std::weak_ptr(groups_)](int process, const std::string& why) {
            if (const auto living = groups.lock())
              living->lose(process, why);
          });
    held_->release_by([groups = groups_, by = context_->transport, generation = generation_] {
      groups->token().cancel();
      by->end_generation(generation);
    });
  }
  return {};
}

template <class Request>
caf::result<answer_to<Request>> node_state::spawn(const Request& x) {
  if (auto refusal = admit(x))
    return refusal;
  const auto& by = std::get<recipe<Request>>(*recipes_);
  if (by.obstacle)
    if (const auto why = by.obstacle(x))
      return messages::make_error(messages::ec::refused, *why);
  auto name = by.name(x);
  if (by.replaces)
    for (const auto& one : spawned_)
      if (one.what == by.kind && one.name == name)
        self_->send_exit(one.actor, caf::exit_reason::user_shutdown);
  spawned_actor out{.generation = generation_, .what = by.kind, .name = std::move(name)};
  auto& home = self_->home_system();
  auto [actor, answer] = by.spawn(x, {home, context_, job_, groups_, services_, out.ends});
  if constexpr (std::is_same_v<Request, messages::spawn_replica>)
    branch_.add(x.generation, x.replica, answer.replica);
  if (by.kind == spawned_kind::service)
    out.with_epoch = services_.on_cancel([ends = out.ends] { ends.cancel(); });
  context_->messages->introduce(actor, out.name);
  out.actor = actor;
  spawned_.push_back(std::move(out));
  if (!held_->add(actor))  // NODE-3
    self_->send_exit(actor, caf::exit_reason::user_shutdown);
  context_->messages->monitor(self_, actor);
  return context_->messages->checked(home, std::move(answer));
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

namespace {

template <class... Requests, class... Answers, class... Handlers>
messages::node_actor::behavior_type behaviour_of(
    messages::node_actor::stateful_pointer<node_state> self,
    caf::detail::type_list<
        caf::typed_mpi<caf::detail::type_list<Requests>, caf::output_tuple<Answers>>...> /*spawns*/,
    Handlers... rest) {
  return {takes<Requests>(self, [](node_state& node, const auto& x) { return node.spawn(x); })...,
          std::move(rest)...};
}

}  // namespace

messages::node_actor::behavior_type node(messages::node_actor::stateful_pointer<node_state> self,
                                         std::shared_ptr<const node_context> context,
                                         std::shared_ptr<const spawn_table> recipes) {
  self->state.start(std::move(context), std::move(recipes));
  return behaviour_of(
      self,
      messages::spawner_actor::signatures{},
      takes<messages::end_generation>(self, [](auto& node, const auto& x) { return node.end(x); }),
      in_tree<messages::run_step>(self),
      in_tree<messages::decision>(self),
      in_tree<messages::take_snapshot>(self),
      in_tree<messages::drop_snapshot>(self),
      in_tree<messages::use_checkpointer>(self),
      in_tree<messages::ready>(self),
      in_tree<messages::vote>(self),
      in_tree<messages::applied>(self),
      in_tree<messages::kept>(self),
      takes<messages::use_branches>(self, [](auto& node, const auto& x) { return node.use(x); }),
      takes<messages::find_stored>(self, [](auto& node, const auto& x) { return node.find(x); }),
      takes<messages::measure>(self, [](auto& node, const auto& x) { return node.measure(x); }),
      takes<messages::look_again>(self,
                                  [](auto& node, const auto& x) { return node.look_again(x); }),
      takes<messages::suspected>(self, [](auto& node, const auto& x) { return node.suspect(x); }),
      takes<messages::all_restored>(
          self, [](auto& node, const auto& x) { return node.close_restored(x); }),
      takes<messages::shut_down>(self,
                                 [](auto& node, const auto& x) { return node.shut_down(x); }));
}

}  // namespace troupe::actors

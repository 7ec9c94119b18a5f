#include "actors/job/every_actor.hpp"

#include "actors/checkpointer/checkpointer.hpp"
#include "actors/keeper/keeper.hpp"
#include "actors/loader/loader.hpp"
#include "actors/monitor/monitor.hpp"
#include "actors/replica/replica.hpp"
#include "actors/shard_writer/save_folder.hpp"
#include "actors/shard_writer/shard_writer.hpp"
#include "actors/stage/stage.hpp"

#include <caf/actor_cast.hpp>

#include <fmt/format.h>
#include <string>
#include <utility>

namespace troupe::actors {
namespace {

/// `spawn` returns the actor's handle.
template <class Request, class Name, class Spawn>
recipe<Request> recipe_of(spawned_kind kind, Name name, Spawn spawn, recipe<Request> rest = {}) {
  rest.kind = kind;
  rest.name = std::move(name);
  rest.spawn = [spawn](const Request& x, const spawning& by) {
    auto made = spawn(x, by);
    auto actor = caf::actor_cast<caf::actor>(made);
    return std::pair(std::move(actor), answer_to<Request>{std::move(made)});
  };
  return rest;
}

/// A service has the same name in every process.
template <class Request, class Spawn>
recipe<Request> service(const char* name, Spawn spawn, recipe<Request> rest = {}) {
  const auto named = [name](const Request&) { return std::string(name); };
  return recipe_of<Request>(spawned_kind::service, named, spawn, std::move(rest));
}

spawn_table all_recipes() {
  using namespace messages;
  return {
      service<spawn_loader>("loader",
                            [](const auto& x, const spawning& by) {
                              return by.detached(loader, by.context, x.generation);
                            }),
      // The old keeper served another process's ranks.
      service<spawn_keeper>("keeper",
                            [](const auto& x, const spawning& by) {
                              return by.detached(keeper, x, by.job, by.context, by.services);
                            },
                            {.replaces = true}),
      service<spawn_checkpointer>("checkpointer",
                                  [](const auto& x, const spawning& by) {
                                    return by.detached(
                                        checkpointer, x, by.job, by.context, by.ends);
                                  }),
      // Reports a folder that this host cannot see before the first step. Later failures are disk
      // errors.
      service<spawn_shard_writer>(shard_writer_state::name,
                                  [](const auto& x, const spawning& by) {
                                    return by.detached(shard_writer, x, by.context, by.ends);
                                  },
                                  {.obstacle = obstacle_to_saving}),
      service<spawn_monitor>("monitor",
                             [](const auto& x, const spawning& by) {
                               return by.detached(monitor, x, by.job, by.context);
                             }),
      recipe_of<spawn_replica>(
          spawned_kind::rank,
          [](const auto& x) { return fmt::format("replica:{}", x.replica); },
          [](const auto& x, const spawning& by) { return by.home.spawn(replica, x, by.context); }),
      recipe_of<spawn_stage>(
          spawned_kind::rank,
          [](const auto& x) { return "stage:" + x.name; },
          [](const auto& x, const spawning& by) {
            return by.home.spawn(stage, x, by.job, by.context, by.groups);
          })};
}

}  // namespace

std::shared_ptr<const spawn_table> every_actor() {
  static const auto all = std::make_shared<const spawn_table>(all_recipes());
  return all;
}

}  // namespace troupe::actors

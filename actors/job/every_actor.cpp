#include "actors/job/every_actor.hpp"

#include "actors/checkpointer/checkpointer.hpp"
#include "actors/keeper/keeper.hpp"
#include "actors/loader/loader.hpp"
#include "actors/monitor/monitor.hpp"
#include "actors/replica/replica.hpp"
#include "actors/shard_writer/save_folder.hpp"
#include "actors/shard_writer/shard_writer.hpp"
#include "actors/stage/stage.hpp"

#include <fmt/format.h>
#include <utility>

namespace troupe::actors {
namespace {

/// Adds an actor: `spawn` returns its handle.
template <class Request, class Name, class Spawn>
void add(spawn_table& to, spawned_kind kind, Name name, Spawn spawn, recipe<Request> rest = {}) {
  rest.kind = kind;
  rest.name = std::move(name);
  rest.spawn = [spawn](const Request& x, const spawning& by) {
    auto made = spawn(x, by);
    auto actor = caf::actor_cast<caf::actor>(made);
    return std::pair(std::move(actor), answer_to<Request>{std::move(made)});
  };
  to.add(std::move(rest));
}

/// Adds a service, which has the same name in every process.
template <class Request, class Spawn>
void add_service(spawn_table& to, const char* name, Spawn spawn, recipe<Request> rest = {}) {
  const auto named = [name](const Request&) { return std::string(name); };
  add<Request>(to, spawned_kind::service, named, spawn, std::move(rest));
}

spawn_table all_recipes() {
  using namespace messages;
  spawn_table out;
  add_service<spawn_loader>(out, "loader", [](const auto& x, const spawning& by) {
    return by.detached(loader, by.context, x.generation);
  });
  // The old keeper served another process's ranks.
  add_service<spawn_keeper>(out,
                            "keeper",
                            [](const auto& x, const spawning& by) {
                              return by.detached(keeper, x, by.job, by.context, by.services);
                            },
                            {.replaces = true});
  add_service<spawn_checkpointer>(out, "checkpointer", [](const auto& x, const spawning& by) {
    return by.detached(checkpointer, x, by.job, by.context, by.ends);
  });
  // Reports a folder that this host cannot see before the first step. Later failures are disk
  // errors.
  add_service<spawn_shard_writer>(out,
                                  shard_writer_state::name,
                                  [](const auto& x, const spawning& by) {
                                    return by.detached(shard_writer, x, by.context, by.ends);
                                  },
                                  {.obstacle = obstacle_to_saving});
  add_service<spawn_monitor>(out, "monitor", [](const auto& x, const spawning& by) {
    return by.detached(monitor, x, by.job, by.context);
  });
  add<spawn_replica>(
      out,
      spawned_kind::rank,
      [](const auto& x) { return fmt::format("replica:{}", x.replica); },
      [](const auto& x, const spawning& by) { return by.home.spawn(replica, x, by.context); });
  add<spawn_stage>(
      out,
      spawned_kind::rank,
      [](const auto& x) { return "stage:" + x.place; },
      [](const auto& x, const spawning& by) {
        return by.home.spawn(stage, x, by.job, by.context, by.groups);
      });
  return out;
}

}  // namespace

std::shared_ptr<const spawn_table> every_actor() {
  static const auto all = std::make_shared<const spawn_table>(all_recipes());
  return all;
}

}  // namespace troupe::actors

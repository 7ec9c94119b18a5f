// The table of actors that a node can spawn: a recipe per request. The node knows no actor; the
// program's table is every_actor (actors/job/every_actor.hpp).

#pragma once

#include "actors/host/context.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>
#include <caf/detail/type_list.hpp>
#include <caf/response_type.hpp>
#include <caf/spawn_options.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace troupe::actors {

/// Resources of a node for an actor that it spawns.
struct spawning {
  caf::actor_system& home;
  std::shared_ptr<const node_context> context;
  std::shared_ptr<const opened_job> job;
  std::shared_ptr<group_registry> groups;  ///< of the generation
  /// Once cancelled, the actor publishes nothing more. `services` ends with the epoch; `ends` also
  /// when the node finds that the actor hangs.
  runtime::cancel_token services, ends;

  /// Spawns an actor that blocks: on its own thread, except in simulations.
  template <class... Ts>
  auto detached(Ts&&... x) const {
    return context->env.own_threads ? home.spawn<caf::detached>(std::forward<Ts>(x)...)
                                    : home.spawn(std::forward<Ts>(x)...);
  }
};

/// A rank belongs to a generation; a service serves all generations of a supervisor.
enum class spawned_kind : std::uint8_t { rank, service };

template <class Request>
using answer_to = std::tuple_element_t<
    0,
    typename caf::response_type<messages::spawner_actor::signatures, Request>::tuple_type>;

/// How a node answers this request.
template <class Request>
struct recipe {
  spawned_kind kind = spawned_kind::service;
  std::function<std::string(const Request&)> name;  ///< in logs and reports of death
  std::function<std::pair<caf::actor, answer_to<Request>>(const Request&, const spawning&)> spawn;
  bool replaces = false;  ///< ends the actor of that name that lives here
  /// Why this process cannot host the actor; empty if it can. Null: it always can.
  std::function<std::optional<std::string>(const Request&)> obstacle = {};
};

template <class Signatures>
struct recipes_for;
// CAF has no public list of the requests: these types are those of the CAF that is pinned.
template <class... Requests, class... Answers>
struct recipes_for<caf::detail::type_list<
    caf::typed_mpi<caf::detail::type_list<Requests>, caf::output_tuple<Answers>>...>> {
  template <class Request>
  using one = std::conditional_t<std::is_same_v<Request, messages::spawn_viewer>,
                                 std::tuple<>,
                                 std::tuple<recipe<Request>>>;
  using type = decltype(std::tuple_cat(std::declval<one<Requests>>()...));
};

/// A recipe for each request of spawner_actor but spawn_viewer, in their order. A request without a
/// recipe does not compile. Immutable once a node has it.
using spawn_table = recipes_for<messages::spawner_actor::signatures>::type;

}  // namespace troupe::actors

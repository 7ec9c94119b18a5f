// How long messages take, and what is heard of deaths, where not the machine decides it: in a
// simulation of several processes.

#pragma once

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include <chrono>
#include <optional>

namespace troupe::actors {

/// As the actors of one process see it. One thread.
class message_network {
 public:
  virtual ~message_network() = default;

  /// How long the next message of an actor of this process is on its way; `from` 0 is none of its
  /// actors, but one of its lanes. Messages between the same two arrive in the order in which they
  /// left. Nothing: it is lost.
  virtual std::optional<std::chrono::nanoseconds> transit(caf::actor_id from, caf::actor_id to) = 0;

  /// Whether what cannot be delayed arrives: a request, and what one follows.
  virtual bool reaches(caf::actor_id from, caf::actor_id to) const = 0;

  /// Takes what does not arrive, and never answers.
  virtual caf::actor nowhere() = 0;

  /// Says whether this network will tell `watcher` of the other's death, late and when it likes, as
  /// of an actor of another process. False: CAF does.
  virtual bool watch(const caf::actor_addr& watcher, const caf::actor& watched) = 0;
};

}  // namespace troupe::actors

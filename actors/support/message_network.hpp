// The environment of a message path: how long messages take, what is heard of deaths, and what
// happens to an actor when a message reaches or leaves it. A real run has none.

#pragma once

#include <caf/actor.hpp>
#include <caf/actor_clock.hpp>
#include <caf/fwd.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <typeinfo>

namespace troupe::actors {

/// A message of any type; valid during the call that it is given to.
class message_view {
 public:
  template <class Message>
  explicit message_view(const Message& x) : type_(typeid(Message)), what_(&x) {}

  /// Null: it has another type.
  template <class Message>
  const Message* as() const {
    return type_ == typeid(Message) ? static_cast<const Message*>(what_) : nullptr;
  }

 private:
  const std::type_info& type_;
  const void* what_;
};

/// As the actors of one process see it. Each member is called by the actor that it is about.
class message_network {
 public:
  virtual ~message_network() = default;

  /// How long the next message of an actor of this process is on its way; `from` 0 is none of its
  /// actors, but one of its lanes. Messages between the same two arrive in the order in which they
  /// left. Nothing: it is lost.
  virtual std::optional<std::chrono::nanoseconds> transit(caf::actor_id from,
                                                          caf::actor_id to,
                                                          caf::actor_clock::time_point now)
      = 0;

  /// Whether what cannot be delayed arrives: a request, and what one follows.
  virtual bool reaches(caf::actor_id from, caf::actor_id to) const = 0;

  /// Takes what does not arrive, and never answers.
  virtual caf::actor nowhere() = 0;

  /// Says whether this network will tell `watcher` of the other's death, late and when it likes, as
  /// of an actor of another process. False: CAF does.
  virtual bool watch(const caf::actor_addr& watcher, const caf::actor& watched) = 0;

  /// Names an actor of this process, "stage:0.1.0"; a successor has the same name.
  virtual void introduce(const caf::actor& who, const std::string& name);

  // Around the handler of a message, and around each send. What they throw ends the actor.

  /// False: the message is lost.
  virtual bool arrives(const caf::local_actor& at, const message_view& what);
  virtual void handled(const caf::local_actor& at, const message_view& what);
  virtual void leaves(const caf::local_actor& from, const message_view& what);
  virtual void left(const caf::local_actor& from, const message_view& what);
};

}  // namespace troupe::actors

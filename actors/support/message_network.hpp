// The environment of a message path: delays of messages, news of deaths, and what happens to an
// actor when a message arrives or leaves. A real run has none.

#pragma once

#include <caf/actor.hpp>
#include <caf/actor_clock.hpp>
#include <caf/fwd.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <typeinfo>

namespace troupe::actors {

/// A message of any type; valid during the call that receives it.
class message_view {
 public:
  template <class Message>
  explicit message_view(const Message& x) : message_view(typeid(Message), &x) {}
  message_view(const std::type_info& type, const void* what) : type_(type), what_(what) {}

  /// Null if the message has another type.
  template <class Message>
  const Message* as() const {
    return type_ == typeid(Message) ? static_cast<const Message*>(what_) : nullptr;
  }

 private:
  const std::type_info& type_;
  const void* what_;
};

/// The network as seen by the actors of one process. Each member is called by the actor concerned.
class message_network {
 public:
  virtual ~message_network() = default;

  /// Delay of the next message of an actor of this process; `from` 0: one of its lanes. Messages
  /// between the same two actors arrive in the order of sending. Empty: the message is lost.
  virtual std::optional<std::chrono::nanoseconds> transit(caf::actor_id from,
                                                          caf::actor_id to,
                                                          caf::actor_clock::time_point now)
      = 0;

  /// True if a message that cannot be delayed arrives: a request, or a message followed by one.
  virtual bool reaches(caf::actor_id from, caf::actor_id to) const = 0;

  /// An actor that receives lost messages, and never answers.
  virtual caf::actor nowhere() = 0;

  /// True: this network reports the other's death to `watcher`, possibly late, as for an actor of
  /// another process. False: CAF reports it.
  virtual bool watch(const caf::actor_addr& watcher, const caf::actor& watched) = 0;

  /// Names an actor of this process, such as "stage:0.1.0"; its replacement has the same name.
  virtual void introduce(const caf::actor& who, const std::string& name);

  // Called around the handler of a message, and around each send. An exception ends the actor.

  /// False: the message is dropped.
  virtual bool arrives(const caf::local_actor& at, const message_view& what);
  virtual void handled(const caf::local_actor& at, const message_view& what);
  virtual void leaves(const caf::local_actor& from, const message_view& what);
  virtual void left(const caf::local_actor& from, const message_view& what);
};

}  // namespace troupe::actors

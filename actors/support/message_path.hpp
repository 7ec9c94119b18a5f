// The path of all messages that an actor sends.

#pragma once

#include "actors/support/message_network.hpp"
#include "messages/core/through_bytes.hpp"

#include <caf/actor_cast.hpp>
#include <caf/local_actor.hpp>
#include <caf/message.hpp>
#include <caf/response_type.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace troupe::actors {

/// Shared by the actors of a process. Any thread.
///
/// Messages between two actors stay in order, as in CAF. With `check_messages` each message is
/// serialized and decoded, as if its receiver were in another process, and the copy is delivered. A
/// copy that differs ends the sender (MESSAGE-1). Without a network, CAF delivers messages at once.
class message_path {
 public:
  explicit message_path(bool checks = false, std::shared_ptr<message_network> network = {})
      : checks_(checks), network_(std::move(network)) {}

  const std::shared_ptr<message_network>& network() const { return network_; }

  /// Names an actor of this process to the network.
  template <class Handle>
  void introduce(const Handle& who, const std::string& name) const {
    if (network_)
      network_->introduce(caf::actor_cast<caf::actor>(who), name);
  }

  /// False: the message to this actor is dropped.
  template <class Self, class Message>
  bool arrives(Self* self, const Message& what) const {
    return !network_ || network_->arrives(*self, message_view(what));
  }

  /// Handles an arrived message with `what`.
  template <class Self, class Message, class What>
  auto handle(Self* self, const Message& x, const What& what) const {
    if constexpr (std::is_void_v<decltype(what(x))>) {
      if (!arrives(self, x))
        return;
      what(x);
      if (network_)
        network_->handled(*self, message_view(x));
    } else {
      arrives(self, x);
      auto out = what(x);
      if (network_)
        network_->handled(*self, message_view(x));
      return out;
    }
  }

  template <class Self, class Target, class Message>
  void send(Self* self, const Target& to, Message what) const {
    require_accepted<Self, Target, Message>();
    send(*self, caf::actor_cast<caf::strong_actor_ptr>(to), any(std::move(what)));
  }

  /// Sends without delay: a request or an exit that follows must not overtake this message.
  template <class Self, class Target, class Message>
  void send_at_once(Self* self, const Target& to, Message what) const {
    require_accepted<Self, Target, Message>();
    send_at_once(*self, caf::actor_cast<caf::strong_actor_ptr>(to), any(std::move(what)));
  }

  /// Like self->delayed_send.
  template <class Self, class Target, class Message>
  void send_later(Self* self,
                  const Target& to,
                  std::chrono::nanoseconds after,
                  Message what) const {
    require_accepted<Self, Target, Message>();
    send_later(*self, caf::actor_cast<caf::strong_actor_ptr>(to), after, any(std::move(what)));
  }

  /// Like self->request.
  template <class Self, class Target, class Duration, class Message>
  auto request(Self* self, const Target& to, Duration patience, Message what) const {
    auto sent = checked(self->home_system(), std::move(what));
    if (network_)
      network_->leaves(*self, message_view(sent));
    if (network_ && !network_->reaches(self->id(), to->id()))
      return self->request(caf::actor_cast<Target>(network_->nowhere()), patience, std::move(sent));
    return self->request(to, patience, std::move(sent));
  }

  /// Like self->monitor: the actor gets a down_msg when the other has ended.
  template <class Self, class Target>
  void monitor(Self* self, const Target& other) const {
    if (!network_ || !network_->watch(self->address(), caf::actor_cast<caf::actor>(other)))
      self->monitor(other);
  }

  /// Sends from a thread outside all actors, such as a lane or a signal handler.
  template <class Target, class Message>
  void send_from_outside(const Target& to, Message what) const {
    require_accepted<void, Target, Message>();
    send_from_outside(caf::actor_cast<caf::strong_actor_ptr>(to), any(std::move(what)));
  }

  /// Checks an answer before a handler returns it.
  template <class Message>
  Message checked(caf::actor_system& system, Message what) const {
    if (!checks_)
      return what;
    ++checked_;
    return messages::through_bytes(system, what);
  }

  bool checks() const { return checks_; }

  /// Number of messages that were serialized and checked.
  std::uint64_t count() const { return checked_; }

 private:
  /// A message of any type. The functions that take it are compiled once.
  struct any_message {
    caf::message what;
    const messages::message_kind& kind;

    message_view view() const { return {kind.type, what.at(0)}; }
  };
  template <class Message>
  static any_message any(Message what) {
    return {caf::make_message(std::move(what)), messages::kind_of<Message>()};
  }

  /// The receiver takes the message, and the sender takes the answer, as CAF's own send checks.
  template <class Self, class Target, class Message>
  static constexpr void require_accepted() {
    using answer
        = caf::response_type_unbox<caf::signatures_of_t<Target>, caf::detail::type_list<Message>>;
    static_assert(answer::valid, "the receiver does not accept this message");
    if constexpr (!std::is_void_v<Self>)
      static_assert(
          caf::is_void_response<typename answer::type>::value
              || caf::response_type_unbox<caf::signatures_of_t<Self>, typename answer::type>::valid,
          "the sender does not accept the answer to this message");
  }

  void send(caf::local_actor& self, const caf::strong_actor_ptr& to, any_message what) const;
  void send_at_once(caf::local_actor& self,
                    const caf::strong_actor_ptr& to,
                    any_message what) const;
  void send_later(caf::local_actor& self,
                  const caf::strong_actor_ptr& to,
                  std::chrono::nanoseconds after,
                  any_message what) const;
  void send_from_outside(const caf::strong_actor_ptr& to, any_message what) const;
  any_message checked(caf::actor_system& system, any_message what) const;

  bool checks_;
  std::shared_ptr<message_network> network_;  ///< null in a real run
  mutable std::atomic<std::uint64_t> checked_ = 0;
};

}  // namespace troupe::actors

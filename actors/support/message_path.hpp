// The one way on which an actor's messages leave it.

#pragma once

#include "actors/support/message_network.hpp"
#include "messages/core/through_bytes.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace troupe::actors {

/// Of a process, shared by its actors. Any thread.
///
/// Between two actors messages stay in order, as CAF promises. With `check_messages` each goes
/// through bytes and back, as if its receiver were in another process, and what is delivered is the
/// decoded copy; one that does not come back equal ends its sender (MESSAGE-1). Without a network
/// CAF delivers messages at once.
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

  /// False: what has come to this actor is lost.
  template <class Self, class Message>
  bool arrives(Self* self, const Message& what) const {
    return !network_ || network_->arrives(*self, message_view(what));
  }

  /// Handles a message that has come to this actor as `what` does.
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
    auto sent = checked(self->home_system(), std::move(what));
    if (!network_)
      return self->send(to, std::move(sent));
    network_->leaves(*self, message_view(sent));
    const auto now = self->home_system().clock().now();
    if (const auto after = network_->transit(self->id(), to->id(), now)) {
      if (after->count() > 0)
        self->delayed_send(to, *after, sent);
      else
        self->send(to, sent);
    }
    network_->left(*self, message_view(sent));
  }

  /// Never delayed: for what a request or an exit follows, which would overtake it.
  template <class Self, class Target, class Message>
  void send_at_once(Self* self, const Target& to, Message what) const {
    auto sent = checked(self->home_system(), std::move(what));
    if (network_)
      network_->leaves(*self, message_view(sent));
    if (!network_ || network_->reaches(self->id(), to->id()))
      self->send(to, std::move(sent));
  }

  /// As self->delayed_send.
  template <class Self, class Target, class Duration, class Message>
  void send_later(Self* self, const Target& to, Duration after, Message what) const {
    self->delayed_send(to, after, checked(self->home_system(), std::move(what)));
  }

  /// As self->request.
  template <class Self, class Target, class Duration, class Message>
  auto request(Self* self, const Target& to, Duration patience, Message what) const {
    auto sent = checked(self->home_system(), std::move(what));
    if (network_)
      network_->leaves(*self, message_view(sent));
    if (network_ && !network_->reaches(self->id(), to->id()))
      return self->request(caf::actor_cast<Target>(network_->nowhere()), patience, std::move(sent));
    return self->request(to, patience, std::move(sent));
  }

  /// As self->monitor: the actor is told with a down_msg when the other has ended.
  template <class Self, class Target>
  void monitor(Self* self, const Target& other) const {
    if (!network_ || !network_->watch(self->address(), caf::actor_cast<caf::actor>(other)))
      self->monitor(other);
  }

  /// From a thread that is no actor: a lane, a signal.
  template <class Target, class Message>
  void send_from_outside(const Target& to, Message what) const {
    auto sent = checked(to.home_system(), std::move(what));
    if (!network_ || network_->reaches(0, to->id()))
      caf::anon_send(to, std::move(sent));
  }

  /// An answer, for a handler to return.
  template <class Message>
  Message checked(caf::actor_system& system, Message what) const {
    if (!checks_)
      return what;
    ++checked_;
    return messages::through_bytes(system, what);
  }

  bool checks() const { return checks_; }

  /// Messages that went through bytes so far.
  std::uint64_t count() const { return checked_; }

 private:
  bool checks_;
  std::shared_ptr<message_network> network_;  ///< null in a real run
  mutable std::atomic<std::uint64_t> checked_ = 0;
};

}  // namespace troupe::actors

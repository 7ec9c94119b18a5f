// The one way on which an actor's messages leave it.

#pragma once

#include "actors/support/fault_injector.hpp"
#include "actors/support/message_network.hpp"
#include "messages/core/through_bytes.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace troupe::actors {

/// Of a process, shared by its actors. Any thread.
///
/// A message is delayed where the fault injector is asked to: messages of different senders
/// overtake each other; between two actors they stay in order, as CAF promises. With
/// `check_messages` each goes through bytes and back, as if its receiver were in another process,
/// and what is delivered is the decoded copy; one that does not come back equal ends its sender
/// (MESSAGE-1). In a simulation a network decides what each message meets on its way; then one
/// thread uses this.
class message_path {
 public:
  explicit message_path(std::shared_ptr<const fault_injector> faults,
                        bool checks = false,
                        std::shared_ptr<message_network> network = {})
      : faults_(std::move(faults)), checks_(checks), network_(std::move(network)) {}

  template <class Self, class Target, class Message>
  void send(Self* self, const Target& to, Message what) const {
    auto sent = checked(self->home_system(), std::move(what));
    if (network_) {
      if (const auto after = network_->transit(self->id(), to->id()))
        deliver(self, to, *after, std::move(sent));
    } else if (!faults_->delays_messages()) {
      self->send(to, std::move(sent));
    } else {
      const auto now = self->home_system().clock().now();
      self->delayed_send(to, faults_->message_delay(self->id(), to->id(), now), std::move(sent));
    }
  }

  /// Never delayed: for what a request or an exit follows, which would overtake it.
  template <class Self, class Target, class Message>
  void send_at_once(Self* self, const Target& to, Message what) const {
    auto sent = checked(self->home_system(), std::move(what));
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
  template <class Self, class Target, class Message>
  static void deliver(Self* self, const Target& to, std::chrono::nanoseconds after, Message what) {
    if (after.count() > 0)
      self->delayed_send(to, after, std::move(what));
    else
      self->send(to, std::move(what));
  }

  std::shared_ptr<const fault_injector> faults_;
  bool checks_;
  std::shared_ptr<message_network> network_;  ///< null: the machine decides
  mutable std::atomic<std::uint64_t> checked_ = 0;
};

}  // namespace troupe::actors

// The one way on which an actor's messages leave it.

#pragma once

#include "actors/support/fault_injector.hpp"
#include "messages/core/through_bytes.hpp"

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
/// (MESSAGE-1).
class message_path {
 public:
  explicit message_path(std::shared_ptr<const fault_injector> faults, bool checks = false)
      : faults_(std::move(faults)), checks_(checks) {}

  template <class Self, class Target, class Message>
  void send(Self* self, const Target& to, Message what) const {
    auto sent = checked(self->home_system(), std::move(what));
    if (!faults_->delays_messages())
      self->send(to, std::move(sent));
    else
      self->delayed_send(to, faults_->message_delay(self->id(), to->id()), std::move(sent));
  }

  /// Never delayed: for what a request or an exit follows, which would overtake it.
  template <class Self, class Target, class Message>
  void send_at_once(Self* self, const Target& to, Message what) const {
    self->send(to, checked(self->home_system(), std::move(what)));
  }

  /// As self->delayed_send.
  template <class Self, class Target, class Duration, class Message>
  void send_later(Self* self, const Target& to, Duration after, Message what) const {
    self->delayed_send(to, after, checked(self->home_system(), std::move(what)));
  }

  /// As self->request.
  template <class Self, class Target, class Duration, class Message>
  auto request(Self* self, const Target& to, Duration patience, Message what) const {
    return self->request(to, patience, checked(self->home_system(), std::move(what)));
  }

  /// From a thread that is no actor: a lane, a signal.
  template <class Target, class Message>
  void send_from_outside(const Target& to, Message what) const {
    caf::anon_send(to, checked(to.home_system(), std::move(what)));
  }

  /// An answer, for a handler to return.
  template <class Message>
  Message checked(caf::actor_system& system, Message what) const {
    if (!checks_)
      return what;
    ++checked_;
    return messages::through_bytes(system, what);
  }

  /// Messages that went through bytes so far.
  std::uint64_t count() const { return checked_; }

 private:
  std::shared_ptr<const fault_injector> faults_;
  bool checks_;
  mutable std::atomic<std::uint64_t> checked_ = 0;
};

}  // namespace troupe::actors

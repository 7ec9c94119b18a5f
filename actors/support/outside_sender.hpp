// Sends to an actor from threads outside all actors, such as listeners and searches.

#pragma once

#include "actors/support/message_path.hpp"

#include <caf/actor_cast.hpp>

#include <memory>
#include <utility>

namespace troupe::actors {

/// Any thread. Does not keep the actor alive: messages to an actor that has ended are dropped.
template <class Handle>
class outside_sender {
 public:
  outside_sender(const Handle& to, std::shared_ptr<const message_path> path)
      : to_(caf::actor_cast<caf::weak_actor_ptr>(to)), path_(std::move(path)) {}

  template <class Message>
  void operator()(Message x) const {
    if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(to_))
      path_->send_from_outside(caf::actor_cast<Handle>(alive), std::move(x));
  }

 private:
  caf::weak_actor_ptr to_;
  std::shared_ptr<const message_path> path_;
};

}  // namespace troupe::actors

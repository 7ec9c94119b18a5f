#include "actors/host/holdings.hpp"

#include "messages/core/error.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/system_messages.hpp>

#include <utility>

namespace troupe::actors {
namespace {

void stop(const caf::actor& actor) {
  caf::anon_send(
      actor,
      caf::exit_msg{actor.address(),
                    messages::make_error(messages::ec::cancelled, "the node has ended")});
}

}  // namespace

bool holdings::add(const caf::actor& spawned) {
  const std::lock_guard lock(mutex_);
  if (ended_)
    return false;
  std::erase_if(actors_, [](const auto& x) { return !caf::actor_cast<caf::strong_actor_ptr>(x); });
  actors_.push_back(caf::actor_cast<caf::weak_actor_ptr>(spawned));
  return true;
}

void holdings::release_by(std::function<void()> release) {
  {
    const std::lock_guard lock(mutex_);
    if (!ended_) {
      release_ = std::move(release);
      return;
    }
  }
  release();
}

void holdings::services(runtime::cancel_token x) {
  {
    const std::lock_guard lock(mutex_);
    services_ = x;
    if (!ended_)
      return;
  }
  x.cancel();
}

// Calls back without the lock: released actors may call this object again.
void holdings::end() {
  std::vector<caf::weak_actor_ptr> actors;
  std::function<void()> release;
  runtime::cancel_token services;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true))
      return;
    actors = std::exchange(actors_, {});
    release = std::exchange(release_, {});
    services = services_;
  }
  services.cancel();
  if (release)
    release();
  for (const auto& one : actors)
    if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(one))
      stop(caf::actor_cast<caf::actor>(alive));
}

void newest_holdings::set(std::shared_ptr<holdings> x) {
  const std::lock_guard lock(mutex_);
  newest_ = std::move(x);
}

std::shared_ptr<holdings> newest_holdings::get() const {
  const std::lock_guard lock(mutex_);
  return newest_;
}

}  // namespace troupe::actors

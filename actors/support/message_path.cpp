#include "actors/support/message_path.hpp"

#include <caf/actor_clock.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/no_stages.hpp>

namespace troupe::actors {

namespace {

void enqueue(caf::local_actor& self, const caf::strong_actor_ptr& to, caf::message what) {
  to->enqueue(caf::make_mailbox_element(self.ctrl(), caf::make_message_id(), {}, std::move(what)),
              self.context());
}

}  // namespace

message_path::any_message message_path::checked(caf::actor_system& system, any_message x) const {
  if (checks_) {
    ++checked_;
    x.what = messages::through_bytes(system, x.what, x.kind);
  }
  return x;
}

void message_path::send(caf::local_actor& self,
                        const caf::strong_actor_ptr& to,
                        any_message what) const {
  if (!to)
    return;
  const auto sent = checked(self.home_system(), std::move(what));
  if (!network_)
    return enqueue(self, to, sent.what);
  network_->leaves(self, sent.view());
  const auto now = self.home_system().clock().now();
  if (const auto after = network_->transit(self.id(), to->id(), now)) {
    if (after->count() > 0)
      self.home_system().clock().schedule_message(
          now + *after,
          to,
          caf::make_mailbox_element(self.ctrl(), caf::make_message_id(), {}, sent.what));
    else
      enqueue(self, to, sent.what);
  }
  network_->left(self, sent.view());
}

void message_path::send_at_once(caf::local_actor& self,
                                const caf::strong_actor_ptr& to,
                                any_message what) const {
  if (!to)
    return;
  const auto sent = checked(self.home_system(), std::move(what));
  if (network_)
    network_->leaves(self, sent.view());
  if (!network_ || network_->reaches(self.id(), to->id()))
    enqueue(self, to, sent.what);
}

void message_path::send_later(caf::local_actor& self,
                              const caf::strong_actor_ptr& to,
                              std::chrono::nanoseconds after,
                              any_message what) const {
  if (!to)
    return;
  auto& clock = self.home_system().clock();
  clock.schedule_message(
      clock.now() + after,
      to,
      caf::make_mailbox_element(self.ctrl(),
                                caf::make_message_id(),
                                {},
                                checked(self.home_system(), std::move(what)).what));
}

void message_path::send_from_outside(const caf::strong_actor_ptr& to, any_message what) const {
  if (!to)
    return;
  const auto sent = checked(*to->home_system, std::move(what));
  if (!network_ || network_->reaches(0, to->id()))
    to->enqueue(nullptr, caf::make_message_id(), sent.what, nullptr);
}

}  // namespace troupe::actors

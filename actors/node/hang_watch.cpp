#include "actors/node/hang_watch.hpp"

#include "actors/support/guard.hpp"
#include "runtime/core/log.hpp"

#include <chrono>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {

void hang_watch_state::start(messages::node_actor node,
                             std::shared_ptr<const node_context> context,
                             double suspicion) {
  node_ = std::move(node);
  context_ = std::move(context);
  suspicion_ = suspicion;
  judge_ = std::make_unique<runtime::hang_judge>(suspicion);
  end_on_exception(self_, "hang_watch");
  look({});
}

void hang_watch_state::look(const messages::look_at_lanes& x) {
  const auto now = std::uint64_t(self_->home_system().clock().now().time_since_epoch().count());
  if (const auto found = judge_->look(context_->lanes->all(), now)) {
    const auto& root = found->root;
    runtime::log_warning("{} shows no progress; who waits for whom:{}", root.who, found->text);
    context_->lanes->leave_behind(root.number);
    context_->messages->send(
        self_,
        node_,
        messages::suspected{
            runtime::generation_id(root.generation),
            root.who,
            fmt::format("{} has shown no progress for {:.1f} s in '{}'{}, and does not wait for "
                        "anybody (`recovery.suspicion` {})",
                        root.who,
                        found->seconds,
                        root.work,
                        root.step > 0 ? fmt::format(" of step {}", root.step) : "",
                        suspicion_)});
  }
  context_->messages->send_later(self_,
                                 messages::hang_watch_actor(self_),
                                 std::chrono::nanoseconds(judge_->period_ns()),
                                 messages::look_at_lanes{x.number + 1});
}

messages::hang_watch_actor::behavior_type hang_watch(
    messages::hang_watch_actor::stateful_pointer<hang_watch_state> self,
    messages::node_actor node,
    std::shared_ptr<const node_context> context,
    double suspicion) {
  self->state.start(std::move(node), std::move(context), suspicion);
  return {[self](const messages::look_at_lanes& x) { self->state.look(x); }};
}

}  // namespace troupe::actors

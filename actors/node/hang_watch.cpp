#include "actors/node/hang_watch.hpp"

#include "actors/host/neighbours.hpp"
#include "actors/support/guard.hpp"
#include "runtime/core/log.hpp"

#include <caf/actor_system_config.hpp>
#include <caf/settings.hpp>

#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace troupe::actors {
namespace {

std::string reason_of(const runtime::hang_judge::verdict& found, double suspicion) {
  const auto& root = found.root;
  const auto at = root.step > 0 ? fmt::format(" of step {}", root.step) : "";
  if (!found.ring.empty())
    return fmt::format(
        "{} has shown no progress for {:.1f} s{}: a deadlock, {} (`recovery.suspicion` {})",
        root.who,
        found.seconds,
        at,
        found.ring,
        suspicion);
  return fmt::format(
      "{} has shown no progress for {:.1f} s in '{}'{}, and waits for no other actor "
      "(`recovery.suspicion` {})",
      root.who,
      found.seconds,
      root.work,
      at,
      suspicion);
}

}  // namespace

void hang_watch_state::start(watch_settings told, std::shared_ptr<const shared_resources> context) {
  told_ = std::move(told);
  context_ = std::move(context);
  judge_ = std::make_unique<runtime::hang_judge>(told_.suspicion);
  if (context_->neighbours && context_->env.own_threads)
    still_ = std::make_unique<runtime::stillness>(told_.suspicion);
  end_on_exception(self_, "hang_watch");
  look({});
}

void hang_watch_state::look(const messages::look_at_lanes& x) {
  const auto now = std::uint64_t(self_->home_system().clock().now().time_since_epoch().count());
  const auto all = context_->lanes->all();
  if (const auto found = judge_->look(all, now)) {
    const auto& root = found->root;
    runtime::log_warning("{} shows no progress; wait graph:{}", root.who, found->text);
    context_->lanes->leave_behind(root.number);
    tell({runtime::generation_id(root.generation),
          root.who,
          reason_of(*found, told_.suspicion),
          root.actor});
  }
  look_at_threads();
  look_at_everything(all, now);
  context_->messages->send_later(self_,
                                 messages::hang_watch_actor(self_),
                                 std::chrono::nanoseconds(judge_->period_ns()),
                                 messages::look_at_lanes{x.number + 1});
}

void hang_watch_state::tell(const messages::suspected& x) {
  const bool of_front = told_.front && told_.front->id() == x.actor;  // HANG-4
  if (x.actor == 0)
    context_->messages->send(self_, told_.node, x);
  else if (told_.front && !of_front)
    context_->messages->send(self_, told_.front, x);
  else if (told_.give_up && !std::exchange(gave_up_, true))
    told_.give_up(x.why);
}

// HANG-5. This function and the supervisor's answer to it are messages, so they count as progress
// of the node and the supervisor. The monitor's samples count as its progress. All three are left
// out.
void hang_watch_state::look_at_everything(const std::vector<runtime::board_entry>& all,
                                          std::uint64_t now_ns) {
  if (!still_)
    return;
  std::uint64_t bytes = 0;
  if (context_->transport) {
    const auto& x = context_->transport->counters();
    bytes += x.bytes_handed + x.bytes_copied + x.tickets;
  }
  if (const auto* const taken = context_->neighbours->taken())
    bytes += taken->bytes_mapped + taken->bytes_read + taken->bytes_received;
  if (still_->look(all, bytes, now_ns, {"node", "supervisor", "monitor"}))
    tell({.who = everything, .why = runtime::wait_graph(all).text("", now_ns)});
}

void hang_watch_state::look_at_threads() {
  const auto lost = context_->lanes->threads_lost();
  if (told_.threads == 0 || lost + 1 < told_.threads)
    looks_at_last_ = 0;
  else
    ++looks_at_last_;
  // Only at the second look: an actor that was merely late may be about to end.
  if (looks_at_last_ < 2 || !told_.give_up || std::exchange(gave_up_, true))
    return;  // HANG-2
  told_.give_up(fmt::format(
      "{} actors hang and hold {} of the {} threads that actors share: the process must end; see "
      "the log for where each hangs. The same command resumes from the last checkpoint",
      lost,
      lost,
      told_.threads));
}

messages::hang_watch_actor::behavior_type hang_watch(
    messages::hang_watch_actor::stateful_pointer<hang_watch_state> self,
    watch_settings told,
    std::shared_ptr<const shared_resources> context) {
  self->state.start(std::move(told), std::move(context));
  return {[self](const messages::look_at_lanes& x) { self->state.look(x); }};
}

messages::hang_watch_actor watch_for_hangs(caf::actor_system& home,
                                           const std::shared_ptr<const shared_resources>& context,
                                           const runtime::recovery_settings& recovery,
                                           watch_settings told) {
  if (!recovery.on || !context->env.watches_lanes)
    return {};
  told.suspicion = recovery.suspicion;
  if (context->env.own_threads)
    told.threads = caf::get_or(home.config(), "scheduler.max-threads", std::size_t{0});
  return context->env.own_threads ? home.spawn<caf::detached>(hang_watch, std::move(told), context)
                                  : home.spawn(hang_watch, std::move(told), context);
}

}  // namespace troupe::actors

// Times that a stage reports for each step, to find slow workers.

#include "actors/stage/timing.hpp"

#include "actors/stage/stage.hpp"
#include "actors/stage/stage_context.hpp"

#include <algorithm>

namespace troupe::actors {

// Counts only times in which the lane is idle: queued work covers the other waits.
void stage_state::note_waiting() {
  if (!takes_times())
    return;
  auto& times = now_->times;
  const auto now = std::max<std::uint64_t>(clock_ns(messages::stage_actor(self_)), 1);
  if (times.waits_since_ns != 0) {
    const double seconds = double(now - times.waits_since_ns) / 1e9;
    (times.waits_for_batch ? times.awaiting_batches : times.awaiting_ranks) += seconds;
    times.waits_since_ns = 0;
  }
  if (now_->in_lane > 0 || now_->next >= now_->row.size())
    return;
  const auto& x = now_->row[now_->next];
  const auto at = pass_of(x);
  const bool needs_batch = x.kind == runtime::action_kind::forward && takes_batch(x.chunk);
  const bool lacks_activation = x.kind == runtime::action_kind::forward && takes_activation(x.chunk)
                                && !inbox_.contains({arrival::activation, at});
  times.waits_since_ns = now;
  times.waits_for_batch
      = needs_batch && !lacks_activation && !inbox_.contains({arrival::batch, at});
}

void add_action(const action_time& x, messages::stage_times& to) {
  const auto seconds = [](auto ns) { return double(ns) / 1e9; };
  const bool took = x.bytes > 0;
  const double redeeming = took ? seconds(x.redeeming) : 0;
  const double no_core = seconds(x.no_core);
  const double no_core_redeeming = took ? seconds(x.no_core_redeeming) : 0;
  const double waited = seconds(x.waited);
  to.computing += std::max(
      0.0, seconds(x.all) - redeeming - waited - std::max(0.0, no_core - no_core_redeeming));
  to.awaiting_ranks += waited;
  to.redeeming += std::max(0.0, redeeming - no_core_redeeming);
  to.redeemed += x.bytes;
  to.no_core += no_core;
}

messages::stage_times stage_state::times_of(const step_times& x, const runtime::stream& by) {
  messages::stage_times out{.awaiting_batches = x.awaiting_batches,
                            .awaiting_ranks = x.awaiting_ranks};
  for (const auto& one : x.actions)
    add_action({.all = by.ns_of(one.end) - by.ns_of(one.begin),
                .redeeming = one.bytes > 0 ? by.ns_of(one.redeemed) - by.ns_of(one.redeems) : 0,
                .bytes = one.bytes,
                .waited = one.waited,
                .no_core = one.no_core,
                .no_core_redeeming = one.no_core_redeeming},
               out);
  return out;
}

}  // namespace troupe::actors

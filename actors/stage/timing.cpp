// Where the time of a step went: what a stage says of itself, so that a slow one is found.

#include "actors/stage/stage.hpp"
#include "actors/stage/stage_context.hpp"

#include <algorithm>

namespace troupe::actors {

// Only what keeps the lane from working counts: what is in it has been submitted ahead.
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
  const bool takes_batch
      = x.kind == runtime::action_kind::forward && (is_first(x.chunk) || is_last(x.chunk));
  const bool lacks_activation = x.kind == runtime::action_kind::forward && !is_first(x.chunk)
                                && !inbox_.contains({arrival::activation, at});
  times.waits_since_ns = now;
  times.waits_for_batch
      = takes_batch && !lacks_activation && !inbox_.contains({arrival::batch, at});
}

messages::stage_times stage_state::times_of(const step_times& x, const runtime::stream& by) {
  messages::stage_times out{.awaiting_batches = x.awaiting_batches,
                            .awaiting_ranks = x.awaiting_ranks};
  const auto seconds = [&](const runtime::moment& begin, const runtime::moment& end) {
    return double(by.ns_of(end) - by.ns_of(begin)) / 1e9;
  };
  for (const auto& one : x.actions) {
    const double redeeming = one.bytes > 0 ? seconds(one.redeems, one.redeemed) : 0;
    const double no_core = double(one.no_core) / 1e9;
    const double of_redeeming = one.bytes > 0 ? double(one.no_core_redeeming) / 1e9 : 0;
    // The two clocks are not read at once.
    out.computing += std::max(
        0.0, seconds(one.begin, one.end) - redeeming - std::max(0.0, no_core - of_redeeming));
    out.redeeming += std::max(0.0, redeeming - of_redeeming);
    out.redeemed += one.bytes;
    out.no_core += no_core;
  }
  return out;
}

}  // namespace troupe::actors

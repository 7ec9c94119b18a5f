// Submits work to a stage's lanes, and handles its completion.

#include "actors/stage/stage_context.hpp"
#include "actors/support/guard.hpp"
#include "runtime/core/error.hpp"

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace troupe::actors {

void lane_task::submit(runtime::lane& to, lane_work what) const {
  to.submit(
      [x = *this, what = std::move(what)](runtime::stream& by) {
        std::optional<runtime::lane_board::place::at_work> seen;
        if (const auto& place = x.context->places[x.place])
          // Building reads or initializes a whole state, and parts of that report no progress.
          seen.emplace(*place,
                       x.label,
                       value(x.step),
                       clock_ns(x.stage),
                       x.label == "build" ? patience_with_disks : 1);
        if (x.trace) {
          const auto begin = by.now();
          what(*x.context, by);
          x.context->trace(*x.trace, {x.label, x.rank, x.step, 0, 0, x.track}, begin, by);
        } else {
          what(*x.context, by);
        }
        if (seen)
          by.show_progress();
      },
      [name = label, number = work, receiver = stage, path = path](std::exception_ptr failure) {
        messages::lane_done done{.work = number};
        if (failure) {
          const auto reason = reason_of(name, failure);
          done.failure = messages::text_of(reason);
          done.cancelled = is(reason, messages::ec::cancelled);
          done.refused = is(reason, messages::ec::refused);
          done.peer_lost = is(reason, messages::ec::peer_lost);
        }
        path->send_from_outside(receiver, std::move(done));
      });
}

lane_task stage_state::task_for(std::string label, int track, std::uint64_t work) const {
  return {.label = std::move(label),
          .rank = told_.rank,
          .track = track,
          .place = track == 0 ? 0 : 1,
          .step = step_,
          .work = work,
          .context = context_,
          .trace = node_->trace,
          .path = node_->messages,
          .stage = messages::stage_actor(self_)};
}

void stage_state::submit(std::string label, lane_work what, std::function<void()> after) {
  const auto work = ++submitted_;
  after_.emplace(work, std::move(after));
  task_for(std::move(label), 0, work).submit(*lane_, std::move(what));
}

void stage_state::submit_communication(std::string label,
                                       lane_work what,
                                       std::function<void()> after) {
  const auto work = ++submitted_;
  after_.emplace(work, std::move(after));
  task_for(std::move(label), 1, work).submit(*communication_lane_, std::move(what));
}

void stage_state::finish(const messages::lane_done& x) {
  if (x.cancelled)
    return;  // the cause that ended the generation ends this stage, too
  if (!x.failure.empty()) {
    const auto code = x.refused     ? messages::ec::refused
                      : x.peer_lost ? messages::ec::peer_lost
                                    : messages::ec::protocol_violated;
    self_->quit(messages::make_error(code, who_ + ": " + x.failure));
    return;
  }
  if (take_credit_back(x.work))
    return;
  auto after = after_.extract(x.work);
  runtime::ensure(!after.empty(), "STAGE-2: each piece of work ends once");
  after.mapped()();
}

}  // namespace troupe::actors

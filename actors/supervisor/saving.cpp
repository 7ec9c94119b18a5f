// Checkpoints, on the supervisor's side.

#include "actors/supervisor/supervisor.hpp"
#include "runtime/core/log.hpp"

#include <fmt/format.h>

namespace troupe::actors {

// Number of ranks that contribute a part to a checkpoint.
int supervisor_state::snapshot_parts() const {
  int out = 0;
  for (int rank = 0; rank < job_->seats.size(); ++rank)
    out += job_->writes(rank) ? 1 : 0;
  return out;
}

// With the change for the next step, so that a run that resumes from this checkpoint has it too.
std::string supervisor_state::identity_of_save() const {
  return runtime::with_rate_changes(told_.identity, recipe_.rate_changes);
}

void supervisor_state::begin_save() {
  saves_.begin(at_.iteration, is_over());
  saving_ = at_.iteration;
  save_began_ns_ = clock_ns();
  show_save("begun", saving_);
  pen()->keep_position(at_);
  context_->messages->send(self_,
                           checkpointer_,
                           messages::save{.generation = generation(),
                                          .step = runtime::step_id(at_.iteration),
                                          .consumed = at_.consumed,
                                          .parts = snapshot_parts(),
                                          .skipped = at_.skipped,
                                          .scale = at_.scale,
                                          .attempt = ++attempt_,
                                          .identity = identity_of_save()});
  const messages::take_snapshot order{generation(), runtime::step_id(at_.iteration), attempt_};
  for (int r = 0; r < job_->replicas(); ++r)
    if (job_->has_writer(r))
      context_->messages->send(self_, replicas_[std::size_t(r)], order);
}

// A checkpointer serves all generations of a supervisor.
void supervisor_state::receive(const messages::saved& x) {
  if (epoch_of(x.generation) != epoch_of(generation()))
    return;
  pen()->saved(value(x.step));
  if (x.attempt != attempt_ || !saves_.is_writing())
    return;  // from a dead checkpointer; another attempt is running or will come
  saves_.succeed();
  show_save("written", value(x.step));
  unsaved_.clear();
  proceed();
}

// A failed disk costs no step: the run continues and retries.
void supervisor_state::receive(const messages::save_failed& x) {
  if (epoch_of(x.generation) != epoch_of(generation()) || x.attempt != attempt_
      || !saves_.is_writing())
    return;
  const auto step = runtime::value(x.step);
  saves_.fail(at_.iteration);
  show_save("failed", step, x.why);
  if (processes_.size() > 1)  // SHARDS-3; in one process the checkpointer has fetched everything
    tell_replicas(messages::drop_snapshot{x.generation, x.step, x.attempt});
  unsaved_ = fmt::format("iteration {} is not saved: {}", step, x.why);
  if (!is_over()) {
    runtime::log_error(
        "{}; training continues, and the save is tried again after iteration {}; earlier "
        "checkpoints are intact",
        unsaved_,
        saves_.next_try());
  } else if (saves_.may_try_last_again(at_.iteration)) {
    const auto pause = saves_.pause(job_->job.checkpoints.last_pause);
    runtime::log_error(
        "{}; it is the last one: tried again in {} s", unsaved_, double(pause.count()) / 1e3);
    waits_to_save_ = true;
    context_->messages->send_later(
        self_, messages::supervisor_actor(self_), pause, messages::save_again{generation()});
    return;
  } else if (!saves_.is_saved(at_.iteration)) {
    runtime::log_error("{}", unsaved_);
  }
  proceed();
}

void supervisor_state::receive(const messages::save_again& x) {
  if (epoch_of(x.generation) != epoch_of(generation()))
    return;
  waits_to_save_ = false;
  proceed();
}

}  // namespace troupe::actors

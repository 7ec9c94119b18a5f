#include "actors/supervisor/supervisor.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/log.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {

save_driver::save_driver(supervisor_parts& all)
    : supervisor_part(all),
      schedule_(!run_.job->job.checkpoints.save.empty(),
                run_.context->ledger->newest_saved().value_or(run_.told.iteration),
                run_.job->job.checkpoints.save_interval),
      disks_(std::size_t(run_.processes())),
      store_told_(std::size_t(run_.processes())) {
  if (run_.keeps())
    top_ = runtime::process_tree(run_.processes()).children(runtime::process_tree::root);
}

void save_driver::begin_save() {
  schedule_.begin(run_.at.iteration, steps_.is_over());
  saving_ = run_.at.iteration;
  began_ns_ = run_.clock_ns();
  show("begun", saving_);
  run_.pen()->keep_position(run_.at);
  // With the change for the next step, so that a run that resumes from it has it too.
  auto identity = runtime::with_rate_changes(run_.told.identity, commands_.recipe().rate_changes);
  int parts = 0;
  for (int rank = 0; rank < run_.job->seats.size(); ++rank)
    parts += run_.job->writes(rank) ? 1 : 0;
  run_.send(roster_.checkpointer(),
            messages::save{.generation = run_.generation(),
                           .step = runtime::step_id(run_.at.iteration),
                           .consumed = run_.at.consumed,
                           .parts = parts,
                           .skipped = run_.at.skipped,
                           .scale = run_.at.scale,
                           .attempt = ++attempt_,
                           .identity = std::move(identity)});
  roster_.tell_replicas(
      messages::take_snapshot{run_.generation(), runtime::step_id(run_.at.iteration), attempt_});
}

// A checkpointer serves all generations of a supervisor.
void save_driver::receive(const messages::saved& x) {
  if (!run_.is_of_this_epoch(x.generation))
    return;
  run_.pen()->saved(value(x.step));
  if (x.attempt != attempt_ || !schedule_.is_writing())
    return;  // from a dead checkpointer; another attempt is running or will come
  schedule_.succeed();
  show("written", value(x.step));
  unsaved_.clear();
  steps_.proceed();
}

// A failed disk costs no step: the run continues and retries.
void save_driver::receive(const messages::save_failed& x) {
  if (!run_.is_of_this_epoch(x.generation) || x.attempt != attempt_ || !schedule_.is_writing())
    return;
  const auto step = runtime::value(x.step);
  schedule_.fail(run_.at.iteration);
  show("failed", step, x.why);
  if (run_.processes() > 1)  // SHARDS-3; in one process the checkpointer has fetched everything
    roster_.tell_replicas(messages::drop_snapshot{x.generation, x.step, x.attempt});
  unsaved_ = fmt::format("iteration {} is not saved: {}", step, x.why);
  if (!steps_.is_over()) {
    runtime::log_error(
        "{}; training continues, and the save is tried again after iteration {}; earlier "
        "checkpoints are intact",
        unsaved_,
        schedule_.next_try());
  } else if (schedule_.may_try_last_again(run_.at.iteration)) {
    const auto pause = schedule_.pause(run_.job->job.checkpoints.last_pause);
    runtime::log_error(
        "{}; it is the last one: tried again in {} s", unsaved_, double(pause.count()) / 1e3);
    waits_to_retry_ = true;
    run_.send_to_self_later(pause, messages::save_again{run_.generation()});
    return;
  } else if (!schedule_.is_saved(run_.at.iteration)) {
    runtime::log_error("{}", unsaved_);
  }
  steps_.proceed();
}

void save_driver::receive(const messages::save_again& x) {
  if (!run_.is_of_this_epoch(x.generation))
    return;
  waits_to_retry_ = false;
  steps_.proceed();
}

// The save can no longer complete. Complete parts are written and reported before the answer.
void save_driver::abandon() {
  if (!schedule_.is_writing() || !roster_.checkpointer())
    return;
  abandoning_ = run_.generation();
  run_.send(roster_.checkpointer(), messages::abandon{run_.generation()});
}

void save_driver::receive(const messages::abandoned& x) {
  if (abandoning_ != x.generation)
    return;  // answer to an earlier death
  abandoning_.reset();
  if (schedule_.is_writing())
    show("failed", saving_, "a rank or the checkpointer died");
  schedule_.abandon();
  recovery_.begin_when_ready();
}

void save_driver::lose_checkpointer() {
  schedule_.abandon();
  abandoning_.reset();
}

void save_driver::show(const char* state, std::uint64_t iteration, const std::string& why) const {
  if (!run_.context->records)
    return;
  const auto now = run_.clock_ns();
  const double seconds = double(now - std::min(now, began_ns_)) / 1e9;
  run_.context->records->add("save", [state, iteration, why, seconds, path = run_.told.save] {
    return runtime::json_text_replacing(nlohmann::json{{"iteration", iteration},
                                                       {"state", state},
                                                       {"seconds", seconds},
                                                       {"path", path},
                                                       {"why", why}});
  });
}

}  // namespace troupe::actors

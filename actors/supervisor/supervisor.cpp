#include "actors/supervisor/supervisor.hpp"

#include "actors/support/guard.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"

#include <caf/system_messages.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace troupe::actors {

using messages::role;

namespace {

constexpr auto viewer_patience = std::chrono::seconds(5);

/// Micro-batches of one round of validation, for each stage: a longer round has a smaller bubble,
/// a shorter one holds fewer activations.
constexpr std::int64_t validation_depth = 4;

}  // namespace

drain_request drain_by(const messages::supervisor_actor& head) {
  return [weak = caf::actor_cast<caf::weak_actor_ptr>(head)](const std::string& why) {
    if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(weak))
      caf::anon_send(caf::actor_cast<messages::supervisor_actor>(alive), messages::drain{why});
  };
}

// However the job ends, viewers go home, after whatever they were told.
supervisor_state::~supervisor_state() {
  for (const auto& viewer : viewers_)
    caf::anon_send(
        caf::actor_cast<caf::actor>(viewer),
        caf::exit_msg{viewer.address(), caf::make_error(caf::exit_reason::user_shutdown)});
}

void supervisor_state::start(messages::node_actor node,
                             std::shared_ptr<const resources> shared,
                             const std::vector<make_viewer>& viewers) {
  node_ = std::move(node);
  shared_ = std::move(shared);
  at_ = {shared_->first_iteration,
         shared_->first_consumed,
         shared_->first_skipped,
         shared_->first_scale.is_used() ? shared_->first_scale
                                        : runtime::beginning(shared_->job.training).scale};
  validated_ = at_.iteration;
  const auto& where = shared_->job.checkpoints;
  saves_ = {!where.save.empty(), at_.iteration, where.save_interval};
  replicas_.resize(std::size_t(shared_->replicas()));
  end_on_exception(self_, "supervisor");
  self_->set_down_handler([this](const caf::down_msg& x) { lose(x); });
  self_->monitor(node_);
  people_.push_back({"node", caf::actor_cast<caf::actor>(node_)});
  for (const auto& make : viewers)
    self_->monitor(viewers_.emplace_back(make(self_->home_system(), drain_by(self_))));
  // In this order: a replica is given the loader and the checkpointer.
  ask_for(role::monitor, 0);
  ask_for(role::loader, 0);
  ask_for(role::checkpointer, 0);
  for (int r = 0; r < shared_->replicas(); ++r)
    ask_for(role::replica, r);
}

void supervisor_state::ask_for(role who, int replica) {
  ++expected_;
  self_->request(node_, caf::infinite, messages::spawn{generation_, who, replica, 0})
      .then(
          [this, who, replica](const caf::actor& actor) {
            if (who == role::replica)
              replicas_[std::size_t(replica)] = caf::actor_cast<messages::replica_actor>(actor);
            spawned(who, actor);
          },
          [](const caf::error&) { /* the node is dead, and its end tells why */ });
}

void supervisor_state::spawned(role who, const caf::actor& actor) {
  self_->monitor(actor);
  switch (who) {
    case role::monitor:
      monitor_ = caf::actor_cast<messages::monitor_actor>(actor);
      people_.push_back({"monitor", actor});
      break;
    case role::checkpointer:
      checkpointer_ = caf::actor_cast<messages::checkpointer_actor>(actor);
      people_.push_back({"checkpointer", actor});
      break;
    case role::loader:
      people_.push_back({"loader", actor});
      break;
    case role::replica:
    case role::stage:
      people_.push_back({"replica", actor});
      break;
  }
  --expected_;
  begin_when_ready();
}

void supervisor_state::receive(const messages::ready& x) {
  if (x.generation != generation_)
    return;
  ++ready_;
  begin_when_ready();
}

void supervisor_state::begin_when_ready() {
  if (expected_ > 0 || ready_ < shared_->replicas())
    return;
  if (shared_->restored)
    shared_->restored();
  proceed();
}

// Whoever dies is named by its own reason: it carries the root cause.
void supervisor_state::lose(const caf::down_msg& x) {
  const auto who = std::find_if(people_.begin(), people_.end(), [&](const person& p) {
    return p.actor.address() == x.source;
  });
  for (const auto& viewer : viewers_)
    if (viewer.address() == x.source)
      return runtime::log_warning("a viewer has ended ({}); the job goes on without it",
                                  messages::text_of(x.reason));
  if (who == people_.end() || is(x.reason, messages::ec::cancelled))
    return;  // whoever was cancelled is not the cause
  if (dismissed_) {
    if (who->name == "node")
      self_->quit();
    return;
  }
  if (!diagnosis_.empty())  // why it all came to an end
    return self_->quit(messages::make_error(messages::ec::refused, diagnosis_));
  const bool known
      = is(x.reason, messages::ec::refused) || is(x.reason, messages::ec::protocol_violated);
  self_->quit(known ? x.reason : because_of(who->name, x.reason));
}

bool supervisor_state::is_over() const {
  const auto& job = shared_->job;
  return draining_ || !diagnosis_.empty() || at_.iteration >= job.train_iterations
         || (job.exit_interval > 0 && at_.iteration > shared_->first_iteration
             && at_.iteration % job.exit_interval == 0);
}

bool supervisor_state::validation_is_due() const {
  const auto& watch = shared_->job.watch;
  return shared_->validation && !draining_ && diagnosis_.empty() && watch.eval_interval > 0
         && watch.eval_batches > 0 && validated_ != at_.iteration
         && (at_.iteration % watch.eval_interval == 0
             || at_.iteration >= shared_->job.train_iterations);
}

void supervisor_state::proceed() {
  if (validation_is_due())
    return begin_validation();
  if (waits_to_save_)
    return;
  if (saves_.is_due(at_.iteration, is_over())) {
    if (saves_.is_writing())
      return;  // snapshots hold memory: one at a time
    begin_save();
  }
  if (!is_over())
    return begin_step();
  if (!saves_.is_writing())
    finish();
}

void supervisor_state::begin_step() {
  const auto step = at_.iteration + 1;
  shared_->faults->inject("supervisor", step);
  const auto& batch = shared_->job.training.batch;
  const auto microbatches = int(runtime::microbatches(batch, std::int64_t(at_.consumed)));
  now_ = messages::run_step{.generation = generation_,
                            .step = runtime::step_id(step),
                            .consumed = at_.consumed,
                            .validation = false,
                            .microbatches = microbatches * shared_->replicas_each(),
                            .timed = is_timed(step),
                            .loss_scale = at_.scale.factor()};
  report_ = {};
  report_.global_batch_size = runtime::global_batch_size(batch, std::int64_t(at_.consumed));
  began_ns_ = runtime::now_ns();
  tell_replicas(*now_);
}

// Where stages have something to wait for, and somebody will read it.
bool supervisor_state::is_timed(std::uint64_t step) const {
  const auto& watch = shared_->job.watch;
  const bool logged = watch.log_interval > 0 && step % watch.log_interval == 0;
  const bool written = !watch.log_file.empty() || !watch.csv_file.empty()
                       || !watch.board_dir.empty() || !watch.schedule_record.empty()
                       || !viewers_.empty();
  return shared_->stages() > 1 && (logged || written || step >= shared_->job.train_iterations);
}

void supervisor_state::begin_validation() {
  validated_ = at_.iteration;
  const auto& job = shared_->job;
  const auto& batch = job.training.batch;
  // As Megatron reads it: every evaluation goes on where the one before stopped.
  const auto before = at_.iteration == 0 ? 0 : (at_.iteration - 1) / job.watch.eval_interval;
  validation_ = {};
  validation_consumed_ = before * std::uint64_t(job.watch.eval_batches * batch.global);
  validation_microbatches_
      = batch.global / (batch.micro * batch.data_parallel) * job.watch.eval_batches;
  begin_validation_round();
}

// Nothing but its end holds a forward-only plan back: the first stage would run ahead of the last
// and fill the memory between them.
void supervisor_state::begin_validation_round() {
  const auto& batch = shared_->job.training.batch;
  const auto now
      = std::min<std::int64_t>(validation_microbatches_, validation_depth * shared_->stages());
  now_ = messages::run_step{.generation = generation_,
                            .step = runtime::step_id(at_.iteration),
                            .consumed = validation_consumed_,
                            .validation = true,
                            .microbatches = int(now) * shared_->replicas_each()};
  validation_microbatches_ -= now;
  validation_consumed_ += std::uint64_t(now * batch.micro * batch.data_parallel);
  tell_replicas(*now_);
}

void supervisor_state::begin_save() {
  saves_.begin(at_.iteration, is_over());
  shared_->faults->send(self_,
                        checkpointer_,
                        messages::save{.generation = generation_,
                                       .step = runtime::step_id(at_.iteration),
                                       .consumed = at_.consumed,
                                       .parts = shared_->snapshot_parts(),
                                       .skipped = at_.skipped,
                                       .scale = at_.scale});
  const messages::take_snapshot order{generation_, runtime::step_id(at_.iteration)};
  if (shared_->job.reduction.distributed_optimizer)
    return tell_replicas(order);  // each holds a part
  shared_->faults->send(self_, replicas_.front(), order);
}

void supervisor_state::receive(const messages::saved& x) {
  if (x.generation != generation_)
    return;
  saves_.succeed();
  unsaved_.clear();
  if (!now_)
    proceed();
}

// A disk that refuses costs no step: the run goes on, and tries again.
void supervisor_state::receive(const messages::save_failed& x) {
  if (x.generation != generation_)
    return;
  const auto step = runtime::value(x.step);
  saves_.fail(at_.iteration);
  unsaved_ = fmt::format("iteration {} is not saved: {}", step, x.why);
  if (!is_over()) {
    runtime::log_error(
        "{}; training goes on, and a checkpoint is tried again after iteration {}; those that were "
        "saved before are intact",
        unsaved_,
        saves_.next_try());
  } else if (saves_.may_try_last_again(at_.iteration)) {
    const auto pause = saves_.pause(shared_->job.checkpoints.last_pause);
    runtime::log_error(
        "{}; it is the last one: tried again in {} s", unsaved_, double(pause.count()) / 1e3);
    waits_to_save_ = true;
    self_->delayed_send(
        messages::supervisor_actor(self_), pause, messages::save_again{generation_});
    return;
  } else if (!saves_.is_saved(at_.iteration)) {
    runtime::log_error("{}", unsaved_);
  }
  if (!now_)
    proceed();
}

void supervisor_state::receive(const messages::save_again& x) {
  if (x.generation != generation_)
    return;
  waits_to_save_ = false;
  proceed();
}

void supervisor_state::say_when(const std::string& why) const {
  if (now_ && !now_->validation)
    runtime::log_info(" {}: finishing iteration {}, then stopping; a second signal ends at once{}",
                      why,
                      at_.iteration + 1,
                      at_.iteration > 0 ? ", without saving" : "");
  else
    runtime::log_info(" {}: stopping after iteration {}", why, at_.iteration);
}

void supervisor_state::drain(const messages::drain& x) {
  if (!draining_)
    say_when(x.why);
  draining_ = true;
  if (!now_ && expected_ == 0 && ready_ == shared_->replicas())
    proceed();
}

void supervisor_state::finish() {
  if (std::exchange(concluding_, true))
    return;
  const auto dismiss = [this] {
    std::string why = diagnosis_;
    if (!saves_.is_saved(at_.iteration))
      why += (why.empty() ? "" : "; ") + unsaved_;
    if (!why.empty())
      return self_->quit(messages::make_error(messages::ec::refused, why));
    dismissed_ = true;
    self_->send(node_, messages::dismiss{});
  };
  // A dead monitor is a death like any other; a hung one loses its last lines, the job nothing.
  self_->request(monitor_, viewer_patience, messages::conclude{})
      .then([dismiss](messages::concluded) { dismiss(); },
            [dismiss](const caf::error& e) {
              if (e != caf::sec::request_timeout)
                return;
              runtime::log_warning(
                  "the monitor did not conclude in {} s: the last lines of the "
                  "log may be missing",
                  viewer_patience.count());
              dismiss();
            });
}

messages::supervisor_actor::behavior_type supervisor(
    messages::supervisor_actor::stateful_pointer<supervisor_state> self,
    messages::node_actor node,
    std::shared_ptr<const resources> shared,
    const std::vector<make_viewer>& viewers) {
  self->state.start(std::move(node), std::move(shared), viewers);
  return {
      [self](const messages::ready& x) { self->state.receive(x); },
      [self](const messages::vote& x) { self->state.receive(x); },
      [self](const messages::applied& x) { self->state.receive(x); },
      [self](const messages::saved& x) { self->state.receive(x); },
      [self](const messages::save_failed& x) { self->state.receive(x); },
      [self](const messages::save_again& x) { self->state.receive(x); },
      [self](const messages::drain& x) { self->state.drain(x); },
  };
}

}  // namespace troupe::actors

#include "actors/supervisor/supervisor.hpp"

#include "actors/support/guard.hpp"
#include "actors/support/on_board.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/state/ledger_beyond.hpp"

#include <caf/system_messages.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace troupe::actors {

namespace {

constexpr auto monitor_patience = std::chrono::seconds(5);

restart_limits limits_of(const runtime::recovery_settings& x) {
  return {.on = x.on, .most = x.max_restarts, .window_ns = std::uint64_t(x.window * 1e9)};
}

/// Micro-batches of one validation round, per stage. A longer round has a smaller bubble, a shorter
/// one holds fewer activations.
constexpr std::int64_t validation_depth = 4;

}  // namespace

// Viewers are stopped at any end of the job, after their messages. A successor keeps them.
supervisor_state::~supervisor_state() {
  if (context_ && context_->commands)
    context_->commands->no_longer_wakes(this);
  if (job_ && job_->job.recovery.on && !shut_down_ && members_
      && members_->now() != membership::phase::stopped)
    return;
  for (const auto& viewer : viewers_)
    caf::anon_send(
        caf::actor_cast<caf::actor>(viewer),
        caf::exit_msg{viewer.address(), caf::make_error(caf::exit_reason::user_shutdown)});
}

void supervisor_state::start(messages::node_actor node,
                             messages::job_description told,
                             std::shared_ptr<const supervisor_resources> context,
                             messages::front_actor front,
                             const succession& after) {
  node_ = std::move(node);
  front_ = std::move(front);
  told_ = std::move(told);
  context_ = std::move(context);
  end_on_exception(self_, "supervisor");
  job_ = context_->jobs->open(told_);
  take_place();
  {
    const auto turn = take_turn("start");
    begin(after);
  }
  if (place_)  // last: it reads all of the above
    place_->describe_by([this] { return waits_for(); });
}

void supervisor_state::begin(const succession& after) {
  auto& ledger = *context_->ledger;
  at_ = {told_.iteration,
         told_.consumed,
         told_.skipped,
         told_.scale.is_used() ? told_.scale : runtime::beginning(job_->job.training).scale};
  if (const auto newest = ledger.position(ledger.newest()); after.epoch > 0 && newest)
    at_ = *newest;
  else {  // the predecessor may have died before it began
    const auto by = ledger.by(after.epoch);
    by->begin(at_);
  }
  const auto& where = job_->job.checkpoints;
  const int processes = job_->job.layout.processes;
  // The predecessor may have died in between.
  if (job_->job.recovery.on && processes > 1 && where.local_interval > 0 && !ledger.says_job())
    ledger.by(after.epoch)
        ->is_of({told_.identity, processes, runtime::origin_of(where, told_.start, told_.save)});
  if (!job_->job.skip_train)
    validated_told_ = told_.iteration;
  validated_ = std::max(validated_told_, ledger.newest_validated());
  tested_ = ledger.is_tested();
  is_cold_ = after.is_cold;
  draining_ = ledger.draining().has_value();
  if (job_->job.recovery.verify_fraction > 0 && job_->replicas() == 1
      && (after.epoch == 0 || after.is_cold))
    runtime::log_warning(
        "`recovery.verify_fraction`: there is one replica, so each pass is computed again in the "
        "same place: errors that repeat are not found");
  saves_
      = {!where.save.empty(), ledger.newest_saved().value_or(told_.iteration), where.save_interval};
  recipe_ = job_->job.training;
  control_.eval_interval = job_->job.watch.eval_interval;
  take_up_commands();
  wait_for_commands();
  if (processes > 1 && !context_->agent)
    throw runtime::input_error(
        "the job needs {} processes besides this one, but no launcher is set up: use one process",
        processes);
  processes_.resize(std::size_t(processes));
  slow_.emplace(straggler_rule{.ratio = job_->job.watch.straggler_ratio});
  members_.emplace(
      limits_of(job_->job.recovery), after.epoch, told_.iteration, ledger.restarts(), processes);
  members_->kept(at_.iteration);
  members_->saved(ledger.newest_saved());
  members_->looks_at_disks(job_->job.checkpoints.local_interval > 0);
  self_->set_down_handler([this](const caf::down_msg& x) {
    const auto turn = take_turn("down_msg");
    lose(x);
  });
  self_->set_exit_handler([this](const caf::exit_msg& x) {
    const auto turn = take_turn("exit_msg");
    if (x.reason && context_->messages->arrives(self_, x))
      self_->quit(x.reason);
  });
  context_->messages->monitor(self_, node_);
  node_address_ = node_.address();
  if (after.epoch > 0) {
    note_loss({.who = is_cold_ ? "the run before" : "supervisor", .why = after.why});
    if (after.noticed_ns != 0)
      loss_.began_ns = after.noticed_ns;
  }
  if (processes > 1 && after.epoch > 0)
    end_services_before();
  else
    carry_out(members_->begin(is_cold_));
}

std::uint64_t supervisor_state::clock_ns() const {
  return std::uint64_t(self_->home_system().clock().now().time_since_epoch().count());
}

bool supervisor_state::is_at_end() const {
  return at_.iteration >= job_->job.train_iterations;
}

bool supervisor_state::is_over() const {
  const auto& job = job_->job;
  if (replays() && diagnosis_.empty())
    return false;  // committed steps must be computed again
  return draining_ || time_is_up_ || job.skip_train || !diagnosis_.empty() || is_at_end()
         || (control_.stops_after && at_.iteration >= *control_.stops_after)
         || (job.exit_interval > 0 && at_.iteration > told_.iteration
             && at_.iteration % job.exit_interval == 0);
}

bool supervisor_state::validation_is_due() const {
  const auto& watch = job_->job.watch;
  const auto interval = control_.eval_interval;
  if (!told_.validates || draining_ || !diagnosis_.empty() || watch.eval_batches <= 0)
    return false;
  if (control_.evaluates && !replays())
    return true;
  return interval > 0 && (!validated_ || *validated_ < at_.iteration)
         && (at_.iteration % interval == 0 || job_->job.skip_train || is_at_end());
}

/// Due once, at the end of the training, as in Megatron-LM.
bool supervisor_state::test_is_due() const {
  const auto& job = job_->job;
  const bool at_end = is_at_end() && at_.iteration > told_.iteration;
  return told_.tests && !tested_ && !draining_ && diagnosis_.empty() && job.watch.eval_batches > 0
         && (at_end || job.skip_train);
}

void supervisor_state::proceed() {
  if (!begun_ || now_)
    return;  // waits until all members are there and the step has ended
  if (gives_up_)
    return saves_.is_writing() ? void() : finish();
  take_commands();
  if (is_kept(at_.iteration) && exchange_when_kept() && !begun_)
    return;
  if (validation_is_due())
    return begin_validation();
  if (waits_to_save_)
    return;
  if (!job_->job.skip_train && !replays() && saves_.is_due(at_.iteration, is_over())) {
    if (saves_.is_writing() || !can_save())
      return;  // one at a time, because snapshots hold memory; dead writers are being replaced
    begin_save();
  }
  if (!is_over() && control_.paused && !replays())
    return pause();
  if (!is_over())
    return begin_step();
  if (saves_.is_writing())
    return;
  if (test_is_due())
    return begin_test();  // after the last save: an error in the test data costs no checkpoint
  finish();
}

/// Checks the clock after each step, from the program's start on, as in Megatron-LM.
void supervisor_state::look_at_clock() {
  const auto limit = job_->job.exit_minutes;
  const std::chrono::duration<double, std::ratio<60>> passed
      = self_->home_system().clock().now() - context_->began;
  if (limit <= 0 || time_is_up_ || passed.count() <= limit)
    return;
  time_is_up_ = true;
  if (!is_at_end())
    runtime::log_info(
        " `exit_minutes`: stopping after iteration {}, as {:.{}f} minutes have passed",
        at_.iteration,
        passed.count(),
        passed.count() < 1 ? 3 : 1);
}

void supervisor_state::begin_step() {
  show(replays() ? "recovering" : "training");
  const auto step = at_.iteration + 1;
  const auto& batch = job_->job.training.batch;
  const auto microbatches_after = [&](std::uint64_t consumed) {
    return int(runtime::microbatches(batch, std::int64_t(consumed))) * job_->replicas_each();
  };
  now_ = messages::run_step{.generation = generation(),
                            .step = runtime::step_id(step),
                            .consumed = at_.consumed,
                            .validation = false,
                            .microbatches = microbatches_after(at_.consumed),
                            .timed = is_timed(step),
                            .loss_scale = at_.scale.factor()};
  report_ = {};
  report_.global_batch_size = runtime::global_batch_size(batch, std::int64_t(at_.consumed));
  if (is_followed(step)) {
    now_->next_consumed = at_.consumed + std::uint64_t(report_.global_batch_size);
    now_->next_microbatches = microbatches_after(now_->next_consumed);
  }
  began_at_ = self_->home_system().clock().now();
  tell_replicas(*now_);
}

bool supervisor_state::is_followed(std::uint64_t step) const {
  const auto& job = job_->job;
  return step < job.train_iterations && !draining_ && !time_is_up_
         && (!control_.stops_after || step < *control_.stops_after)
         && (job.exit_interval <= 0 || step % job.exit_interval != 0);
}

// True if the times of actions will be reported. The log and files report them only where stages
// wait for each other.
bool supervisor_state::is_timed(std::uint64_t step) const {
  if (step <= control_.timed_until || context_->is_watched())
    return true;
  const auto& watch = job_->job.watch;
  const bool logged = watch.log_interval > 0 && step % watch.log_interval == 0;
  const bool written = !watch.log_file.empty() || !watch.csv_file.empty()
                       || !watch.board_dir.empty() || !watch.schedule_record.empty()
                       || !viewers_.empty();
  return job_->pipeline_ranks() > 1 && (logged || written || step >= job_->job.train_iterations);
}

void supervisor_state::begin_validation() {
  validated_ = at_.iteration;
  const auto& job = job_->job;
  const auto& batch = job.training.batch;
  // An evaluation continues where the previous one stopped, as in Megatron-LM.
  const auto interval
      = std::max<std::uint64_t>(job.watch.eval_interval, 1);  // the job's: it determines the data
  const auto before = at_.iteration == 0 ? 0 : (at_.iteration - 1) / interval;
  begin_evaluation(before * std::uint64_t(job.watch.eval_batches * batch.global), false);
}

void supervisor_state::begin_test() {
  tested_ = true;
  begin_evaluation(0, true);
}

void supervisor_state::begin_evaluation(std::uint64_t consumed, bool test) {
  show("validating");
  const auto& batch = job_->job.training.batch;
  evaluation_ = {.test = test,
                 .consumed = consumed,
                 .microbatches = batch.global / (batch.micro * batch.data_parallel)
                                 * job_->job.watch.eval_batches};
  begin_evaluation_round();
}

// Credits limit a forward-only plan (PLAN-6), but not its batches: a stage requests all of a round
// at once.
void supervisor_state::begin_evaluation_round() {
  const auto& batch = job_->job.training.batch;
  const auto now
      = std::min<std::int64_t>(evaluation_.microbatches, validation_depth * job_->pipeline_ranks());
  now_ = messages::run_step{.generation = generation(),
                            .step = runtime::step_id(at_.iteration),
                            .consumed = evaluation_.consumed,
                            .validation = true,
                            .test = evaluation_.test,
                            .microbatches = int(now) * job_->replicas_each()};
  evaluation_.microbatches -= now;
  evaluation_.consumed += std::uint64_t(now * batch.micro * batch.data_parallel);
  tell_replicas(*now_);
}

void supervisor_state::say_when(const std::string& why) const {
  const bool saves = !job_->job.checkpoints.save.empty() && !job_->job.skip_train;
  if (now_ && !now_->validation)
    runtime::log_info(" {}: finishing iteration {}, then {}; a second signal ends at once{}",
                      why,
                      at_.iteration + 1,
                      saves ? "saving and stopping"
                            : "stopping; nothing is saved, as there is no `checkpoints.save`",
                      saves ? ", without saving" : "");
  else
    runtime::log_info(" {}: stopping after iteration {}", why, at_.iteration);
}

void supervisor_state::drain(const messages::drain& x) {
  const bool first = !std::exchange(draining_, true);
  pen()->drain(x.why);
  // A missing process may never come, and there is nothing to save.
  if (members_->waits_for_first() && (is_cold_ || context_->ledger->newest() == told_.iteration)) {
    runtime::log_info(" {}: stopped before the first iteration; nothing was trained or saved",
                      x.why);
    return shut_down();
  }
  if (first)
    say_when(x.why);
  proceed();
}

void supervisor_state::finish() {
  waits_to_finish_ = !is_kept(at_.iteration) && !gives_up_;
  if (waits_to_finish_)
    return;  // states on their way to keepers will arrive
  if (std::exchange(concluding_, true))
    return;
  show("ending");
  if (!monitor_)
    return shut_down();
  // A monitor that dies or hangs here is replaced and asked again; the next one writes what is
  // missing. When the second one hangs as well, the last log lines are lost, but the job is
  // complete.
  context_->messages->request(self_, monitor_, monitor_patience, messages::conclude{generation()})
      .then(
          [this](const messages::concluded&) {
            const auto turn = take_turn("concluded");
            shut_down();
          },
          [this](const caf::error& e) {
            const auto turn = take_turn("error");
            if (e != caf::sec::request_timeout)
              return;
            auto why = fmt::format("it did not finish within {} s", monitor_patience.count());
            if (job_->job.recovery.on && !std::exchange(has_waited_for_monitor_, true))
              return lose({monitor_.address(),
                           messages::make_error(messages::ec::protocol_violated, std::move(why))});
            runtime::log_warning(
                "the monitor did not finish within {} s; the last log lines may be missing",
                monitor_patience.count());
            shut_down();
          });
}

void supervisor_state::shut_down() {
  std::string why = diagnosis_;
  if (!saves_.is_saved(at_.iteration))
    why += (why.empty() || unsaved_.empty() ? "" : "; ") + unsaved_;
  if (!why.empty())
    return end(2, why);
  shut_down_ = true;
  members_->close();
  if (front_)
    context_->messages->send_at_once(self_, front_, messages::job_over{});
  end_processes();
  context_->messages->send_at_once(self_, node_, messages::shut_down{generation()});
}

messages::supervisor_actor::behavior_type supervisor(
    messages::supervisor_actor::stateful_pointer<supervisor_state> self,
    messages::node_actor node,
    messages::job_description told,
    std::shared_ptr<const supervisor_resources> context,
    messages::front_actor front,
    const succession& after) {
  self->state.start(std::move(node), std::move(told), std::move(context), std::move(front), after);
  return {
      receives<messages::ready>(self),
      receives<messages::vote>(self),
      receives<messages::applied>(self),
      receives<messages::check_pass>(self),
      receives<messages::saved>(self),
      receives<messages::save_failed>(self),
      receives<messages::abandoned>(self),
      receives<messages::kept>(self),
      receives<messages::process_started>(self),
      receives<messages::process_died>(self),
      receives<messages::process_may_move>(self),
      receives<messages::save_again>(self),
      receives<messages::commands_wait>(self),
      receives<messages::taken_for_dead>(self),
      on_board<messages::drain>(self,
                                self->state.path(),
                                self->state.place(),
                                [self](const messages::drain& x) { self->state.drain(x); }),
  };
}

}  // namespace troupe::actors

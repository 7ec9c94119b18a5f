#include "actors/supervisor/supervisor.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {
namespace {

/// Micro-batches of one validation round, per stage. A longer round has a smaller bubble, a shorter
/// one holds fewer activations.
constexpr std::int64_t validation_depth = 4;

}  // namespace

step_driver::step_driver(supervisor_parts& all)
    : supervisor_part(all),
      losses_(runtime::losses_of(run_.job->job.training)),
      tested_(run_.context->ledger->is_tested()),
      draining_(run_.context->ledger->draining().has_value()) {
  if (!run_.job->job.skip_train)
    validated_told_ = run_.told.iteration;
  validated_ = std::max(validated_told_, run_.context->ledger->newest_validated());
}

void step_driver::forget() {
  begun_ = decided_ = concluding_ = false;
  waits_to_decide_ = waits_to_finish_ = false;
  now_.reset();
  votes_.clear();
  applied_.clear();
  executed_.clear();
  evaluation_ = {};
  validated_ = std::max(validated_told_, run_.context->ledger->newest_validated());
  tested_ = run_.context->ledger->is_tested();
}

void step_driver::proceed_when_kept() {
  if (std::exchange(waits_to_decide_, false))
    decide();
  else if (std::exchange(waits_to_finish_, false))
    proceed();
}

bool step_driver::is_at_end() const {
  return run_.at.iteration >= run_.job->job.train_iterations;
}

bool step_driver::is_over() const {
  const auto& job = run_.job->job;
  if (run_.replays() && diagnosis_.empty())
    return false;  // committed steps must be computed again
  return draining_ || time_is_up_ || job.skip_train || !diagnosis_.empty() || is_at_end()
         || commands_.stops_after(run_.at.iteration)
         || (job.exit_interval > 0 && run_.at.iteration > run_.told.iteration
             && run_.at.iteration % job.exit_interval == 0);
}

bool step_driver::validation_is_due() const {
  const auto& watch = run_.job->job.watch;
  const auto interval = commands_.eval_interval();
  if (!run_.told.validates || draining_ || !diagnosis_.empty() || watch.eval_batches <= 0)
    return false;
  if (commands_.evaluates() && !run_.replays())
    return true;
  return interval > 0 && (!validated_ || *validated_ < run_.at.iteration)
         && (run_.at.iteration % interval == 0 || run_.job->job.skip_train || is_at_end());
}

/// Due once, at the end of the training, as in Megatron-LM.
bool step_driver::test_is_due() const {
  const auto& job = run_.job->job;
  const bool at_end = is_at_end() && run_.at.iteration > run_.told.iteration;
  return run_.told.tests && !tested_ && !draining_ && diagnosis_.empty()
         && job.watch.eval_batches > 0 && (at_end || job.skip_train);
}

void step_driver::proceed() {
  if (!begun_ || now_)
    return;  // waits until all members are there and the step has ended
  if (gives_up_)
    return saves_.is_writing() ? void() : finish();
  commands_.take_commands();
  if (saves_.is_kept(run_.at.iteration) && checks_.exchange_when_kept() && !begun_)
    return;
  if (validation_is_due())
    return begin_validation();
  if (saves_.waits_to_retry())
    return;
  if (!run_.job->job.skip_train && !run_.replays() && saves_.is_due(is_over())) {
    if (saves_.is_writing() || !roster_.can_save())
      return;  // one at a time, because snapshots hold memory; dead writers are being replaced
    saves_.begin_save();
  }
  if (!is_over() && commands_.paused() && !run_.replays())
    return commands_.pause();
  if (!is_over())
    return begin_step();
  if (saves_.is_writing())
    return;
  if (test_is_due())
    return begin_test();  // after the last save: an error in the test data costs no checkpoint
  finish();
}

void step_driver::begin_step() {
  run_.show(run_.replays() ? "recovering" : "training");
  const auto step = run_.at.iteration + 1;
  const auto& batch = run_.job->job.training.batch;
  const auto microbatches_after = [&](std::uint64_t consumed) {
    return int(runtime::microbatches(batch, std::int64_t(consumed))) * run_.job->replicas_each();
  };
  now_ = messages::run_step{.generation = run_.generation(),
                            .step = runtime::step_id(step),
                            .consumed = run_.at.consumed,
                            .validation = false,
                            .microbatches = microbatches_after(run_.at.consumed),
                            .timed = is_timed(step),
                            .loss_scale = run_.at.scale.factor(),
                            .counts_experts = counts_experts(step),
                            .lists_checks = checks_.has_open_cases()};
  report_ = {};
  report_.global_batch_size = runtime::global_batch_size(batch, std::int64_t(run_.at.consumed));
  if (is_followed(step)) {
    now_->next_consumed = run_.at.consumed + std::uint64_t(report_.global_batch_size);
    now_->next_microbatches = microbatches_after(now_->next_consumed);
  }
  began_at_ = run_.self->home_system().clock().now();
  roster_.tell_replicas(*now_);
}

bool step_driver::is_followed(std::uint64_t step) const {
  const auto& job = run_.job->job;
  return step < job.train_iterations && !draining_ && !time_is_up_ && !commands_.stops_after(step)
         && (job.exit_interval <= 0 || step % job.exit_interval != 0);
}

// True if the times of actions will be reported. The log and files report them only where stages
// wait for each other.
bool step_driver::is_timed(std::uint64_t step) const {
  if (commands_.is_timed(step) || run_.context->is_watched())
    return true;
  const auto& watch = run_.job->job.watch;
  const bool logged = watch.log_interval > 0 && step % watch.log_interval == 0;
  const bool written = !watch.log_file.empty() || !watch.csv_file.empty()
                       || !watch.board_dir.empty() || !watch.schedule_record.empty()
                       || !roster_.viewers().empty();
  return run_.job->pipeline_ranks() > 1
         && (logged || written || step >= run_.job->job.train_iterations);
}

bool step_driver::counts_experts(std::uint64_t step) const {
  const auto& watch = run_.job->job.watch;
  return watch.has_line(step, run_.told.iteration, run_.job->job.train_iterations)
         || watch.lists_experts(step);
}

void step_driver::begin_validation() {
  validated_ = run_.at.iteration;
  const auto& job = run_.job->job;
  const auto& batch = job.training.batch;
  // An evaluation continues where the previous one stopped, as in Megatron-LM.
  const auto interval
      = std::max<std::uint64_t>(job.watch.eval_interval, 1);  // the job's: it determines the data
  const auto before = run_.at.iteration == 0 ? 0 : (run_.at.iteration - 1) / interval;
  begin_evaluation(before * std::uint64_t(job.watch.eval_batches * batch.global), false);
}

void step_driver::begin_test() {
  tested_ = true;
  begin_evaluation(0, true);
}

void step_driver::begin_evaluation(std::uint64_t consumed, bool test) {
  run_.show("validating");
  const auto& batch = run_.job->job.training.batch;
  evaluation_ = {.test = test,
                 .losses = std::vector<runtime::loss_value>(losses_.size()),
                 .consumed = consumed,
                 .microbatches = batch.global / (batch.micro * batch.data_parallel)
                                 * run_.job->job.watch.eval_batches};
  begin_evaluation_round();
}

// Credits limit a forward-only plan (PLAN-6), but not its batches: a stage requests all of a round
// at once.
void step_driver::begin_evaluation_round() {
  const auto& batch = run_.job->job.training.batch;
  const auto now = std::min<std::int64_t>(evaluation_.microbatches,
                                          validation_depth * run_.job->pipeline_ranks());
  now_ = messages::run_step{.generation = run_.generation(),
                            .step = runtime::step_id(run_.at.iteration),
                            .consumed = evaluation_.consumed,
                            .validation = true,
                            .test = evaluation_.test,
                            .microbatches = int(now) * run_.job->replicas_each()};
  evaluation_.microbatches -= now;
  evaluation_.consumed += std::uint64_t(now * batch.micro * batch.data_parallel);
  roster_.tell_replicas(*now_);
}

runtime::lane_board::place::waiting step_driver::waits_for() const {
  runtime::lane_board::place::waiting out{.step = run_.at.iteration + 1};
  const auto all_but = [&](const char* what, const auto& has) {
    out.what.what = what;
    for (const auto& one : roster_.below())
      if (!has(one.reporter))
        out.what.whom.push_back(one.reporter.first < 0
                                    ? fmt::format("replica:{}", one.reporter.second)
                                    : fmt::format("process:{}", one.reporter.first));
  };
  if (run_.members.now() == membership::phase::ending)
    out.what = {"the end of a generation", {"node"}};
  else if (run_.members.now() == membership::phase::forming)
    for (int r = 0; r < run_.job->replicas(); ++r) {
      out.what.what = "ranks that are built";
      out.what.whom.push_back(fmt::format("replica:{}", r));
    }
  else if (waits_to_decide_)
    out.what = {"a state that is kept", saves_.keepers_waited_for()};
  else if (now_ && decided_)
    all_but("the updated state", [this](const auto& x) { return applied_.has(x); });
  else if (now_)
    all_but("a vote", [this](const auto& x) { return votes_.has(x); });
  else if (saves_.is_abandoning() || saves_.is_writing())
    out.what = {"a checkpoint", {"checkpointer"}};
  else if (concluding_)
    out.what = {"the last lines", {"monitor"}};
  return out;
}

}  // namespace troupe::actors

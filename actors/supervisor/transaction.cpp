// One step as a transaction: votes, decision, commit.

#include "actors/supervisor/supervisor.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/model/counts.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::actors {

namespace {

constexpr const char* one_of_each = "STEP-8: each replica reports of a step once";

}  // namespace

void step_driver::receive(const messages::vote& x) {
  if (x.generation != run_.generation() || !begun_ || gives_up_)
    return;
  runtime::ensure(now_ && x.step == now_->step, "STEP-3: a vote is for the step that is running");
  if (!votes_.add(x, roster_.reporters(), *run_.job, one_of_each))
    return;
  if (now_->validation)
    return end_evaluation_round();
  require_all_ranks(votes_.all().gradients, *run_.job);
  decide();
}

/// Counts what several ranks hold alike once.
runtime::step_result step_driver::sum_votes() {
  const auto& all = votes_.all();
  runtime::step_result out{.losses = all.losses};
  const auto& watch = run_.job->job.watch;
  std::int64_t zeros = 0;
  for (const auto& x : all.gradients)
    if (run_.job->counts(x.rank, x.layers)) {
      runtime::add_to(out.norms, x.square_norms);
      zeros += x.zeros;
    }
  out.nonfinite_parameter = all.nonfinite.parameter;
  out.nonfinite_where = all.nonfinite.where;
  report_.zero_gradients = watch.log_zero_gradients ? zeros : -1;
  if (!all.experts.empty())
    report_.experts = runtime::loads_of(runtime::spec_of(run_.job->job.training),
                                        all.experts,
                                        watch.lists_experts(runtime::value(now_->step)));
  executed_ = all.executed;
  return out;
}

void step_driver::decide() {
  if (!saves_.is_kept(run_.at.iteration)) {
    waits_to_decide_ = true;  // otherwise the run could not go back to it
    return;
  }
  if (!checks_.passes_agree(votes_.all()) || !checks_.votes_agree(votes_.all()))
    return;
  const auto result = sum_votes();
  const auto verdict = runtime::decide(commands_.recipe(), losses_, run_.at, result);
  if (checks_.is_to_run_again(votes_.all(), verdict, result.nonfinite_where))
    return;
  checks_.look_for_stragglers(votes_.all(),
                              now_->microbatches);  // only for the run of a step that counts
  votes_.clear();
  if (verdict.stops) {
    diagnosis_ = runtime::diagnosis(verdict, run_.at);
    if (const auto& save = run_.job->job.checkpoints.save;
        !save.empty() && run_.at.iteration > run_.told.iteration)
      diagnosis_ += fmt::format(
          "; '{}' has the state of iteration {}, to resume from with `checkpoints.load`",
          save.string(),
          run_.at.iteration);
    now_.reset();
    return proceed();
  }
  if (verdict.skips() && !verdict.overflows)  // overflows are normal in the search for a loss scale
    runtime::log_warning("iteration {}: {}; skipped ({} of at most {} in a row)",
                         run_.at.iteration + 1,
                         verdict.fault,
                         verdict.before + 1,
                         run_.job->job.training.skippable_in_a_row);
  report_.loss = verdict.loss;
  report_.losses = verdict.losses;
  report_.grad_norm = verdict.grad_norm;
  commands_.show_norms(result.norms, verdict.grad_norm);
  const double rate = report_.learning_rate = verdict.update.learning_rate;
  report_.skipped = verdict.skipped;
  report_.scale = verdict.scale;
  decided_ = true;
  roster_.tell_replicas(messages::decision{
      .generation = run_.generation(),
      .step = now_->step,
      .skip = verdict.skips(),
      .update = verdict.update.step,
      .learning_rate = rate,
      .decoupled_learning_rate = verdict.update.decoupled_learning_rate.value_or(rate),
      .weight_decay = verdict.update.weight_decay.value_or(0),
      .gradient_scale = verdict.update.gradient_scale});
}

void step_driver::receive(const messages::applied& x) {
  if (x.generation != run_.generation() || !begun_)
    return;
  runtime::ensure(now_ && decided_ && x.step == now_->step,
                  "STEP-1: no replica updates before all have voted");
  if (!applied_.add(x, roster_.reporters(), *run_.job, one_of_each))
    return;
  require_all_ranks(applied_.all().state, *run_.job);
  if (!checks_.states_agree(applied_.all()))
    return;
  try {
    commit();
  } catch (const runtime::replay_differs& found) {
    return end(
        3, std::string("supervisor: ") + found.what());  // it is unknown which of the two is right
  } catch (const runtime::broken_promise& found) {
    return recovery_.suspect(found.what());
  }
  proceed();
}

void step_driver::commit() {
  std::map<std::string, runtime::digest> state;
  runtime::exact_sum square_norm;
  for (const auto& x : applied_.all().state)
    if (run_.job->counts(x.rank, x.layers)) {
      for (const auto& [parameter, part] : x.own)
        state[parameter] += part;
      square_norm += x.square_norm;
    }
  applied_.clear();
  const auto& ledger = *run_.context->ledger;
  report_.state = runtime::combine(state);
  const auto before = ledger.state(run_.at.iteration);
  runtime::ensure(!report_.was_skipped() || before == runtime::digest{} || report_.state == before,
                  "STEP-7: a step that is left out changes no state");
  if (run_.job->job.watch.log_params_norm)
    report_.params_norm = std::sqrt(square_norm.value());
  const bool again = run_.replays();
  runtime::committed_step done{run_.at, report_.state, std::move(state)};
  done.at.iteration = run_.at.iteration + 1;
  done.at.consumed += std::uint64_t(report_.global_batch_size);
  done.at.skipped = report_.skipped;
  done.at.scale = report_.scale;
  if (again)
    run_.pen()->replay(done);
  run_.before = std::exchange(run_.at, done.at);
  checks_.commit(run_.at.iteration);
  if (saves_.is_stored(run_.at.iteration))
    run_.pen()->keep_position(run_.at, true);
  // Each rank has sealed the state in its estate before it reported; its keeper may have reported
  // earlier or later.
  saves_.note_kept();
  if (!again)
    roster_.tell_watchers(commit(std::move(done)));
  now_.reset();
  decided_ = false;
  look_at_clock();
}

// One pen writes commit and report before they are announced, so that a successor finds both or
// neither.
messages::committed step_driver::commit(runtime::committed_step done) {
  const auto by = run_.pen();
  by->commit(std::move(done));
  return report_step(by);
}

messages::committed step_driver::report_step(const runtime::step_ledger::pen& by) {
  const auto& model = run_.job->job.training.model;
  const std::chrono::duration<double> passed = run_.self->home_system().clock().now() - began_at_;
  const double seconds = std::max(passed.count(), 1e-9);
  report_.iteration = run_.at.iteration;
  report_.consumed_samples = run_.at.consumed;
  report_.consumed_tokens = run_.at.consumed * std::uint64_t(model.sequence());
  report_.elapsed_ms = seconds * 1e3;
  report_.tokens_per_second = double(report_.global_batch_size * model.sequence()) / seconds;
  report_.flops_per_second
      = run_.job->pipeline.sample_flops * double(report_.global_batch_size) / seconds;
  const auto fact = by->tell(report_);
  return {report_,
          std::exchange(executed_, {}),
          now_->microbatches,
          fact,
          run_.generation(),
          commands_.is_timed(run_.at.iteration)};
}

void step_driver::end_evaluation_round() {
  add_to(evaluation_.losses, votes_.all().losses);
  votes_.clear();
  now_.reset();
  if (evaluation_.microbatches > 0 && !draining_)
    return begin_evaluation_round();
  // A shortened validation is not reported, because it used other samples.
  if (evaluation_.microbatches == 0) {
    const auto found = runtime::means_of(losses_, evaluation_.losses);
    runtime::validation_report report{
        run_.at.iteration, found.loss, evaluation_.test, found.by_name};
    // Also that of a supervisor before this one.
    for (const auto& [number, fact] : run_.context->ledger->facts())
      if (const auto* const before = std::get_if<runtime::validation_report>(&fact))
        if (const auto its = runtime::mean_of(before->losses, runtime::best_accuracy_name))
          best_accuracy_ = std::max(best_accuracy_.value_or(*its), *its);
    runtime::add_best_accuracy(report, best_accuracy_);
    const auto fact = [&] {
      const auto by = run_.pen();
      if (evaluation_.test) {
        by->tested();
      } else {
        by->validated(run_.at.iteration);
        commands_.evaluated();
      }
      return by->tell(report);
    }();
    roster_.tell_watchers(messages::validated{report, fact, run_.generation()});
  }
  proceed();
}

}  // namespace troupe::actors

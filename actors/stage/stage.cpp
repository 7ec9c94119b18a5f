#include "actors/stage/stage.hpp"

#include "actors/stage/stage_context.hpp"
#include "actors/support/guard.hpp"
#include "actors/support/on_board.hpp"
#include "runtime/core/error.hpp"
#include "runtime/job/device_setup.hpp"
#include "runtime/schedule/lower.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {

using messages::pass_id;
using runtime::chunk_id;

namespace {

runtime::update_decision update_of(const messages::decision& x) {
  return {.step = x.update,
          .learning_rate = x.learning_rate,
          .gradient_scale = x.gradient_scale,
          .decoupled_learning_rate = x.decoupled_learning_rate,
          .weight_decay = x.weight_decay};
}

}  // namespace

void stage_state::run(const messages::run_step& step) {
  if (step.generation != told_.generation)
    return;
  runtime::ensure(stands_, "STEP-9: a step begins after the worker is built");
  runtime::ensure(!now_, "STEP-4: a step begins after the one before has ended");
  step_ = step.step;
  const pass_id now{
      .generation = told_.generation, .step = step.step, .validation = step.validation};
  const bool left = std::any_of(
      inbox_.begin(), inbox_.end(), [&](const auto& x) { return x.first.second < now; });
  runtime::ensure(!left, "HANDOFF-1: nothing of an earlier step is left when a step begins");
  begin_row(step);
  // Validation runs forward on the first copy only.
  const auto copies = now_->plan->copies;
  const runtime::step_settings settings{
      .step = step.step,
      .training = !step.validation,
      .microbatches = step.microbatches / (job_->replicas_each() * copies),
      .logical_replicas = job_->job.training.batch.data_parallel * copies,
      .loss_scale = step.loss_scale,
      .counts_experts = step.counts_experts};
  if (!step.validation && overlaps_gradients())
    expect_buckets();
  submit(
      "begin",
      [settings](stage_context& context, runtime::stream&) {
        context.worker->begin_step(settings);
        context.verified.clear();
      },
      [] {});
  expect_checks();
  request_batches();
  request_ahead();
  if (now_->length == 0)
    return vote_if_done();
  ask_policy();
  pump();
}

void stage_state::begin_row(const messages::run_step& step) {
  const auto& schedule = *job_->pipeline.schedule;
  auto plan = step.validation ? schedule.validation(step.microbatches)
                              : schedule.training(step.microbatches);
  auto credits = step.validation ? schedule.validation_credits(step.microbatches)
                                 : schedule.training_credits(step.microbatches);
  auto row = runtime::with_split_backward(plan->ranks.at(std::size_t(pipeline_rank_)));
  const auto length = row.size();
  now_ = progress{step, plan, std::move(credits), std::move(row), length};
  const auto* behaviours = schedule.behaviours();
  if (step.validation || behaviours == nullptr)
    return;
  now_->row.clear();  // the rehearsed row only gives the length
  if (leads_) {
    now_->policy
        = policy_state{ask([&] {
                         return behaviours->make(
                             pipeline_rank_, schedule.ranks(), plan->chunks, plan->microbatches);
                       }),
                       runtime::stage_book(*plan, pipeline_rank_)};
    bound_policy();
  }
  for (const auto& [key, data] : inbox_)  // arrived before the step began
    note_arrival(key.first, key.second);
  append_early();
}

void stage_state::expect_buckets() {
  now_->unreduced = context_->buckets;
  context_->step = runtime::value(step_);
  context_->first_reduction = submitted_ + 1;
  for (int b = 0; b < context_->buckets; ++b)
    after_.emplace(++submitted_, [this] {
      --now_->unreduced;
      vote_if_done();
    });
}

void stage_state::vote_if_done() {
  if (now_->finished < now_->length || now_->unreduced > 0)
    return;
  check_passes();
  if (now_->checked.size() < now_->checks.size() || std::exchange(now_->voting, true))
    return;
  vote();
}

namespace {

std::vector<runtime::axis_view> layers_of(const runtime::worker& x) {
  if (x.has_experts())
    return {runtime::axis_views.begin(), runtime::axis_views.end()};
  return {runtime::axis_view::dense};
}

/// The values of the parameters of these layers, by parameter.
template <class Values>
Values of_layers(Values all, runtime::axis_view layers, const runtime::worker& by) {
  std::erase_if(all, [&](const auto& x) { return by.layers_of(x.first) != layers; });
  return all;
}

}  // namespace

void stage_state::vote() {
  seen_.clear();  // no stage sends data of a later step before our vote
  const auto& step = now_->step;
  const auto result
      = std::make_shared<messages::vote>(messages::vote{.generation = told_.generation,
                                                        .step = step.step,
                                                        .replica = replica_,
                                                        .rank = told_.rank,
                                                        .checked = std::move(now_->checked)});
  // Runs after all earlier work, when the loss has been read.
  const auto add_times = [result,
                          pipeline_rank = pipeline_rank_,
                          clock = node_->clock,
                          wanted = leads_ && step.timed,
                          executed = std::move(now_->executed),
                          times = std::move(now_->times),
                          spent = takes_times(),
                          this_stage = stage_index()](const runtime::stream& by) {
    if (spent) {
      result->times = {times_of(times, by)};
      result->times.front().stage_index = this_stage;
    }
    if (!wanted)
      return;
    result->executed = {{pipeline_rank, clock, {}}};
    for (const auto& x : executed)
      result->executed.front().actions.push_back(
          {x.what, double(by.ns_of(x.begin)) / 1e6, double(by.ns_of(x.end)) / 1e6});
  };
  const auto report = [this, result, training = !step.validation] {
    if (training)
      voted_ = result->step;
    now_.reset();
    node_->messages->send(self_, peers_.replica, *result);
  };
  const auto add_losses = [result, leads = leads_](stage_context& context, runtime::reads& by) {
    if (leads)  // tensor ranks compute the same losses
      context.worker->losses(by, result->losses);
  };
  if (step.validation)
    return submit(
        "loss",
        [add_losses, add_times](stage_context& context, runtime::stream& by) {
          runtime::reads wanted(by);
          add_losses(context, wanted);
          wanted.finish();
          add_times(by);
        },
        report);
  submit(
      "reduce",
      [=,
       rank = told_.rank,
       where = where_,
       counts = job_->job.watch.log_zero_gradients,
       compared = job_->replicas() > 1,
       runs_again = job_->job.recovery.on,
       overlapped = overlaps_gradients()](stage_context& context, runtime::stream& by) {
        context.worker->end_computing_again();
        result->experts = context.worker->expert_rows();
        if (overlapped)
          context.worker->finish_reduction();
        else
          context.worker->reduce();
        runtime::reads wanted(by);
        add_losses(context, wanted);
        runtime::square_norms norms;
        runtime::by_view<runtime::digest> bits;
        runtime::by_view<std::int64_t> zeros;
        if (compared)
          context.worker->norms_and_digests(wanted, norms, bits);
        else
          context.worker->norms(wanted, norms);
        if (counts)
          context.worker->zero_gradients(wanted, zeros);
        wanted.finish();
        if (const auto found = context.worker->first_nonfinite(norms); found.entry >= 0) {
          result->nonfinite = {found.name, where, found.chunk, found.entry, rank};
          if (!compared && runs_again) {
            runtime::reads all(by);
            context.worker->vote_digests(all, bits);
            all.finish();
          }
        }
        for (const auto layers : layers_of(*context.worker))
          result->gradients.push_back({.rank = rank,
                                       .layers = layers,
                                       .square_norms = of_layers(norms, layers, *context.worker),
                                       .bits = bits[layers],
                                       .zeros = zeros[layers]});
        add_times(by);
      },
      report);
}

void stage_state::decide(const messages::decision& x) {
  if (!is_ours(x.generation))
    return;
  runtime::ensure(x.step == voted_, "STEP-1: a stage updates after all have voted");
  const auto result = std::make_shared<messages::applied>(messages::applied{
      .generation = told_.generation, .step = x.step, .replica = replica_, .rank = told_.rank});
  const bool later = overlaps_parameters() && !x.skip;
  const bool gathers = job_->job.reduction.distributed_optimizer && !later && !x.skip;
  submit(
      x.skip ? "skip" : "update",
      [x,
       result,
       later,
       gathers,
       job = job_,
       with_norm = job_->job.watch.log_params_norm,
       token = groups_->token()](stage_context& context, runtime::stream& by) {
        if (!x.skip && context.saving)
          std::exchange(context.saving, nullptr)->wait(token);
        if (!x.skip) {
          context.worker->update(update_of(x));
          runtime::keep_product_choices(job->job);
          runtime::tell_attention(job->job);
        }
        context.worker->drop_gradients();
        context.worker->record_choices();
        runtime::reads wanted(by);
        runtime::state_digests state;
        runtime::by_view<runtime::exact_sum> square_norm;
        if (with_norm)
          context.worker->square_norm_of_parameters(wanted, square_norm);
        if (later)
          context.worker->close_parameter_gates(token);
        if (gathers)
          context.worker->gather();
        context.worker->digests(wanted, state);
        wanted.finish();
        if (context.worker->estate() && x.skip)
          context.worker->skip(value(x.step));
        else if (context.worker->estate())
          context.worker->seal(value(x.step), state);
        for (const auto layers : layers_of(*context.worker))
          result->state.push_back({.rank = result->rank,
                                   .layers = layers,
                                   .own = of_layers(state.own, layers, *context.worker),
                                   .copies = of_layers(state.copies, layers, *context.worker),
                                   .square_norm = square_norm[layers]});
      },
      [this, result, later, skip = x.skip] {
        if (later)
          gather_parameters();
        node_->messages->send(self_, peers_.replica, *result);
        give_to_keeper(skip);
      });
}

// The next forward pass begins meanwhile; it waits per layer until its parameters are gathered.
void stage_state::gather_parameters() {
  for (const int b : context_->gather_order)
    submit_communication(
        fmt::format("gather {}", b),
        [b](stage_context& context, runtime::stream& by) { context.worker->gather_bucket(b, by); },
        [] {});
}

messages::stage_actor::behavior_type stage(
    messages::stage_actor::stateful_pointer<stage_state> self,
    messages::spawn_stage told,
    std::shared_ptr<const opened_job> job,
    std::shared_ptr<const stage_resources> node,
    std::shared_ptr<group_registry> groups) {
  self->state.start(std::move(told), std::move(job), std::move(node), std::move(groups));
  return {
      on_board<messages::meet>(self,
                               self->state.path(),
                               self->state.place(),
                               [self](const messages::meet& x) { self->state.meet(x); }),
      on_board<messages::run_step>(self,
                                   self->state.path(),
                                   self->state.place(),
                                   [self](const messages::run_step& x) { self->state.run(x); }),
      receives<messages::group_opened>(self),
      receives<messages::activation>(self),
      receives<messages::gradient>(self),
      receives<messages::batch_ready>(self),
      receives<messages::batch_failed>(self),
      receives<messages::check_pass>(self),
      receives<messages::chosen>(self),
      on_board<messages::ask_again>(
          self,
          self->state.path(),
          self->state.place(),
          [self](const messages::ask_again& x) { self->state.ask_again(x); }),
      on_board<messages::decision>(self,
                                   self->state.path(),
                                   self->state.place(),
                                   [self](const messages::decision& x) { self->state.decide(x); }),
      on_board<messages::take_snapshot>(
          self,
          self->state.path(),
          self->state.place(),
          [self](const messages::take_snapshot& x) { self->state.take_snapshot(x); }),
      on_board<messages::drop_snapshot>(
          self,
          self->state.path(),
          self->state.place(),
          [self](const messages::drop_snapshot& x) { self->state.drop_snapshot(x); }),
      receives<messages::use_loader>(self),
      receives<messages::use_keeper>(self),
      receives<messages::kept_state>(self),
      receives<messages::keep_refused>(self),
      receives<messages::use_checkpointer>(self),
      on_board<messages::lane_done>(
          self,
          self->state.path(),
          self->state.place(),
          [self](const messages::lane_done& x) { self->state.finish(x); }),
  };
}

}  // namespace troupe::actors

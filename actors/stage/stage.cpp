#include "actors/stage/stage.hpp"

#include "actors/stage/stage_context.hpp"
#include "actors/support/guard.hpp"
#include "runtime/core/error.hpp"
#include "runtime/schedule/lower.hpp"
#include "runtime/trainer/device_setup.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {

using messages::pass_id;
using runtime::chunk_id;

stage_state::~stage_state() {
  if (groups_)
    groups_->token().cancel();
}

void stage_state::start(stage_seat seat,
                        std::shared_ptr<const resources> shared,
                        std::shared_ptr<group_registry> groups) {
  seat_ = seat;
  shared_ = std::move(shared);
  groups_ = std::move(groups);
  where_ = fmt::format("{}.{}{}",
                       seat_.replica,
                       seat_.part,
                       shared_->tensor() > 1 ? fmt::format(".{}", seat_.tensor) : "");
  who_ = "stage:" + where_;
  end_on_exception(self_, who_);
  context_ = std::make_shared<stage_context>();
  join_groups();
  auto settings = settings_of_lane("lane " + where_);
  const auto tell_rest = [this](int track) {
    return [context = context_, to = shared_->trace, track](runtime::stream& by) {
      if (to)
        context->trace_rest(*to, track, by);
    };
  };
  settings.at_end = tell_rest(0);
  shared_->pools->add(shared_->rank(seat_.replica, seat_.part, seat_.tensor), settings.pool);
  if (overlaps_gradients() || overlaps_parameters()) {
    auto beside = settings;
    beside.name = "wire " + where_;
    beside.threads = 1;
    beside.at_end = tell_rest(1);
    if (settings.where == kernels::backend::cuda)
      beside.pool = {};  // a pool serves one queue
    communication_lane_ = shared_->make_lane(beside);
  }
  lane_ = shared_->make_lane(settings);
}

runtime::lane_settings stage_state::settings_of_lane(const std::string& called) const {
  return {.name = called,
          .where = shared_->job.backend,
          .threads = shared_->job.threads_per_worker,
          .pool = {},
          .device = runtime::device_of(shared_->job,
                                       shared_->rank(seat_.replica, seat_.part, seat_.tensor)),
          .before_each = [faults = shared_->faults] { faults->delay_lane(); }};
}

void stage_state::join_groups() {
  using runtime::axis;
  const int t = seat_.tensor, p = seat_.part, r = seat_.replica;
  const int device = runtime::device_of(shared_->job, shared_->rank(r, p, t));
  if (shared_->tensor() > 1)
    context_->groups[axis::tensor] = groups_->join(
        fmt::format("tensor of stage {}.{}", r, p), axis::tensor, shared_->tensor(), t, device);
  const auto& pipeline = shared_->pipeline;
  const int copies = pipeline.schedule->copies();
  if (copies == 1)
    context_->groups[axis::data] = groups_->join(
        fmt::format("data of part {}.{}", p, t), axis::data, shared_->replicas(), r, device);
  else  // a copy is a replica whose stages stand elsewhere
    for (const auto& seat : pipeline.schedule->hosted_by(p))
      context_->data_of[seat.chunk]
          = groups_->join(fmt::format("data of chunk {}.{}", value(seat.chunk), t),
                          axis::data,
                          shared_->replicas() * copies,
                          r * copies + int(value(seat.copy)),
                          device);
  const int first = pipeline.first_rank(), last = pipeline.last_rank();
  if (shared_->job.training.model.tied_embeddings && first != last && (p == first || p == last))
    context_->groups[axis::pipeline] = groups_->join(
        fmt::format("ties of replica {}.{}", r, t), axis::pipeline, 2, p == first ? 0 : 1, device);
}

bool stage_state::overlaps_gradients() const {
  return shared_->job.reduction.overlap_gradients && shared_->replicas() > 1;
}

bool stage_state::overlaps_parameters() const {
  return shared_->job.reduction.overlap_parameters && shared_->job.reduction.distributed_optimizer
         && shared_->replicas() > 1;
}

void stage_state::meet(const messages::meet& peers) {
  peers_ = peers;
  build();
}

void stage_state::build() {
  auto blank_task = task_for("", 1, 0);
  blank_task.context = nullptr;  // the context keeps what follows, and must not be kept by it
  // Called on the lane, in the midst of the work that completes a bucket.
  const auto send_off = [lane = communication_lane_.get(),
                         context = std::weak_ptr(context_),
                         blank = std::move(blank_task),
                         faults = shared_->faults,
                         who = "wire:" + where_](int b) {
    const auto held = context.lock();
    auto x = blank;
    x.context = held;
    x.label = fmt::format("reduce {}", b);
    x.work = held->first_reduction + std::uint64_t(b);
    x.step = runtime::step_id(held->step.load());
    x.submit(*lane, [=, step = held->step.load()](stage_context& at, runtime::stream& by) {
      faults->inject(who, step);
      at.worker->reduce_bucket(b, by);
    });
  };
  submit(
      "build",
      [shared = shared_, seat = seat_, send_off, overlap = overlaps_gradients()](
          stage_context& context, runtime::stream& by) {
        if (shared->profile)
          by.time_operations(shared->profile);
        runtime::worker_groups groups;
        for (const auto& row : runtime::axis_table())
          groups.along[row.id] = context.groups[row.id].get();
        for (const auto& [chunk, group] : context.data_of)
          groups.of_chunk[chunk][runtime::axis::data] = group.get();
        context.worker = std::make_unique<runtime::worker>(
            runtime::settings_of(shared->job, shared->pipeline, seat.part), by, groups);
        if (shared->restore)
          shared->restore(*context.worker);
        context.parameters = context.worker->parameter_count();
        context.buckets = context.worker->buckets();
        context.gather_order = context.worker->gather_order();
        if (overlap)
          context.worker->on_complete(send_off);
      },
      [this] {
        shared_->faults->send(
            self_,
            caf::actor_cast<messages::replica_actor>(peers_.supervisor),
            messages::ready{seat_.generation, seat_.replica, context_->parameters});
      });
}

void stage_state::run(const messages::run_step& step) {
  if (step.generation != seat_.generation)
    return;
  shared_->faults->inject(who_, runtime::value(step.step));
  runtime::ensure(!now_, "STEP-4: a step begins after the one before has ended");
  step_ = step.step;
  const pass_id now{
      .generation = seat_.generation, .step = step.step, .validation = step.validation};
  const bool left = std::any_of(
      inbox_.begin(), inbox_.end(), [&](const auto& x) { return x.first.second < now; });
  runtime::ensure(!left, "HANDOFF-1: nothing of an earlier step is left when a step begins");
  begin_row(step);
  // Only training has several copies: validation is forward by the first.
  const auto copies = now_->plan->copies;
  const runtime::step_settings settings{
      .step = step.step,
      .training = !step.validation,
      .microbatches = step.microbatches / (shared_->replicas_each() * copies),
      .logical_replicas = shared_->job.training.batch.data_parallel * copies,
      .loss_scale = step.loss_scale};
  if (!step.validation && overlaps_gradients())
    expect_buckets();
  submit(
      "begin",
      [settings, faults = shared_->faults, who = "nan:" + where_](stage_context& context,
                                                                  runtime::stream&) {
        context.worker->begin_step(settings);
        if (settings.training && faults->injects(who, runtime::value(settings.step)))
          context.worker->inject_nan_gradient();
      },
      [] {});
  request_batches();
  if (now_->length == 0)
    return vote_if_done();
  ask_policy();
  pump();
}

void stage_state::begin_row(const messages::run_step& step) {
  const auto& schedule = *shared_->pipeline.schedule;
  auto plan = step.validation ? schedule.validation(step.microbatches)
                              : schedule.training(step.microbatches);
  auto row = runtime::with_split_backward(plan->ranks.at(std::size_t(seat_.part)));
  const auto length = row.size();
  now_ = progress{step, plan, std::move(row), length};
  const auto* behaviours = schedule.behaviours();
  if (step.validation || behaviours == nullptr)
    return;
  now_->row.clear();  // what was rehearsed only says how long it gets
  if (seat_.tensor == 0)
    now_->policy = policy_state{
        ask([&] {
          return behaviours->make(seat_.part, schedule.ranks(), plan->chunks, plan->microbatches);
        }),
        runtime::stage_book(*plan, seat_.part)};
  for (const auto& [key, data] : inbox_)  // what came before the step
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
  if (now_->finished < now_->length || now_->unreduced > 0 || std::exchange(now_->voting, true))
    return;
  vote();
}

void stage_state::vote() {
  seen_.clear();  // nobody begins anything new before we have voted
  const auto& step = now_->step;
  const auto result
      = std::make_shared<messages::vote>(messages::vote{.generation = seat_.generation,
                                                        .step = step.step,
                                                        .replica = seat_.replica,
                                                        .part = stage_number()});
  // When everything before has been carried out: after the loss was read.
  const auto add_times = [result,
                          part = seat_.part,
                          wanted = seat_.tensor == 0 && step.timed,
                          executed = std::move(now_->executed)](const runtime::stream& by) {
    if (!wanted)
      return;
    result->executed = {{part, {}}};
    for (const auto& x : executed)
      result->executed.front().actions.push_back(
          {x.what, double(by.ns_of(x.begin)) / 1e6, double(by.ns_of(x.end)) / 1e6});
  };
  const auto say = [this, result, training = !step.validation] {
    if (training)
      voted_ = result->step;
    now_.reset();
    shared_->faults->send(
        self_, caf::actor_cast<messages::replica_actor>(peers_.supervisor), *result);
  };
  const auto head = head_copy();
  const auto add_losses = [result, head, each = shared_->replicas_each()](stage_context& context,
                                                                          runtime::reads& by) {
    if (head < 0)
      return;
    const auto found = std::make_shared<std::vector<runtime::loss_value>>(std::size_t(each));
    for (int r = 0; r < each; ++r)
      context.worker->loss(by, r, (*found)[std::size_t(r)]);
    by.then([=] {
      for (int r = 0; r < each; ++r) {
        const auto& x = (*found)[std::size_t(r)];
        result->losses.push_back({x.total, x.tokens, head * each + r});
      }
    });
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
        say);
  submit(
      "reduce",
      [=,
       faults = shared_->faults,
       where = where_,
       counts = shared_->job.watch.log_zero_gradients,
       overlapped = overlaps_gradients()](stage_context& context, runtime::stream& by) {
        faults->inject("lane:" + where, runtime::value(result->step));
        if (overlapped)
          context.worker->finish_reduction();
        else
          context.worker->reduce();
        runtime::reads wanted(by);
        add_losses(context, wanted);
        context.worker->norms(wanted, result->square_norms);
        context.worker->vote_digest(wanted, result->gradients);
        if (counts)
          context.worker->zero_gradients(wanted, result->zeros);
        wanted.finish();
        if (const auto found = context.worker->first_nonfinite(result->square_norms);
            found.entry >= 0)
          result->nonfinite = {found.name, where, found.chunk, found.entry};
        add_times(by);
      },
      say);
}

// The first tensor rank says the loss, of the copy whose head it has.
int stage_state::head_copy() const {
  const auto last = chunk_id(now_->plan->chunks - 1);
  for (int k = 0; seat_.tensor == 0 && k < now_->plan->copies; ++k)
    if (hosts(last, runtime::copy_id(k)))
      return k;
  return -1;
}

void stage_state::decide(const messages::decision& x) {
  if (x.generation != seat_.generation)
    return;
  runtime::ensure(x.step == voted_, "STEP-1: nobody updates before everybody has voted");
  const auto result
      = std::make_shared<messages::applied>(messages::applied{.generation = seat_.generation,
                                                              .step = x.step,
                                                              .replica = seat_.replica,
                                                              .part = stage_number()});
  const bool later = overlaps_parameters() && !x.skip;
  const bool gathers = shared_->job.reduction.distributed_optimizer && !later && !x.skip;
  submit(
      x.skip ? "skip" : "update",
      [x,
       result,
       later,
       gathers,
       shared = shared_,
       with_norm = shared_->job.watch.log_params_norm,
       token = groups_->token()](stage_context& context, runtime::stream& by) {
        if (!x.skip && context.saving)
          std::exchange(context.saving, nullptr)->wait(token);
        if (!x.skip) {
          context.worker->update({x.update, x.learning_rate, x.gradient_scale});
          runtime::keep_product_choices(shared->job);
          runtime::tell_missing_attention(shared->job);
        }
        runtime::reads wanted(by);
        runtime::state_digests state;
        if (with_norm)
          context.worker->square_norm_of_parameters(wanted, result->square_norm);
        if (later)
          context.worker->close_parameter_gates(token);
        if (gathers)
          context.worker->gather();
        context.worker->digests(wanted, state);
        wanted.finish();
        result->own = std::move(state.own);
        result->copies = std::move(state.copies);
      },
      [this, result, later] {
        if (later)
          gather_parameters();
        shared_->faults->send(
            self_, caf::actor_cast<messages::replica_actor>(peers_.supervisor), *result);
      });
}

// The next forward pass begins meanwhile, and waits for each layer at its door.
void stage_state::gather_parameters() {
  for (const int b : context_->gather_order)
    submit_communication(
        fmt::format("gather {}", b),
        [b](stage_context& context, runtime::stream& by) { context.worker->gather_bucket(b, by); },
        [] {});
}

messages::stage_actor::behavior_type stage(
    messages::stage_actor::stateful_pointer<stage_state> self,
    stage_seat seat,
    std::shared_ptr<const resources> shared,
    std::shared_ptr<group_registry> groups) {
  self->state.start(seat, std::move(shared), std::move(groups));
  return {
      [self](const messages::meet& x) { self->state.meet(x); },
      [self](const messages::run_step& x) { self->state.run(x); },
      [self](const messages::activation& x) { self->state.receive(x); },
      [self](const messages::gradient& x) { self->state.receive(x); },
      [self](const messages::batch_ready& x) { self->state.receive(x); },
      [self](const messages::chosen& x) { self->state.receive(x); },
      [self](const messages::ask_again& x) { self->state.ask_again(x); },
      [self](const messages::decision& x) { self->state.decide(x); },
      [self](const messages::take_snapshot& x) { self->state.take_snapshot(x); },
      [self](const messages::lane_done& x) { self->state.finish(x); },
  };
}

}  // namespace troupe::actors

#include "actors/stage/stage.hpp"

#include "actors/stage/bench.hpp"
#include "actors/support/guard.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {

using messages::place;
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
  who_ = fmt::format("stage:{}.{}", seat_.replica, seat_.part);
  end_on_exception(self_, who_);
  bench_ = std::make_shared<bench>();
  bench_->data = groups_->join(fmt::format("data of part {}", seat_.part),
                               runtime::axis::data,
                               shared_->replicas(),
                               seat_.replica);
  if (shared_->job.how.model.tied_embeddings && shared_->stages() > 1 && (is_first() || is_last()))
    bench_->ties = groups_->join(fmt::format("ties of replica {}", seat_.replica),
                                 runtime::axis::pipeline,
                                 2,
                                 is_first() ? 0 : 1);
  lane_ = shared_->make_lane(
      {.name = fmt::format("lane {}.{}", seat_.replica, seat_.part),
       .where = shared_->job.backend,
       .threads = shared_->job.threads_per_worker,
       .pool = shared_->pool,
       .before_each = [planted = shared_->planted] { planted->delay_lane(); }});
}

void stage_state::meet(const messages::meet& whom) {
  peers_ = whom;
  const runtime::worker_settings settings{
      .model = shared_->job.how.model,
      .chunks = {{chunk_id(seat_.part), shared_->chunks[std::size_t(seat_.part)]}},
      .seed = shared_->job.how.seed,
      .optimizer = shared_->job.how.optimizer,
      .replicas = 1};
  submit(
      "build",
      [settings, shared = shared_](bench& on, runtime::stream& by) {
        on.worker = std::make_unique<runtime::worker>(settings, by);
        if (shared->restore)
          shared->restore(*on.worker);
        on.parameters = on.worker->parameter_count();
      },
      [this] {
        shared_->planted->send(
            self_,
            caf::actor_cast<messages::replica_actor>(peers_.supervisor),
            messages::ready{seat_.generation, seat_.replica, bench_->parameters});
      });
}

void stage_state::run(const messages::run_step& step) {
  if (step.generation != seat_.generation)
    return;
  shared_->planted->strike(who_, runtime::value(step.step));
  runtime::ensure(!now_, "STEP-4: a step begins after the one before has ended");
  step_ = step.step;
  const place now{.generation = seat_.generation, .step = step.step, .validation = step.validation};
  const bool left = std::any_of(
      inbox_.begin(), inbox_.end(), [&](const auto& x) { return x.first.second < now; });
  runtime::ensure(!left, "HANDOFF-1: nothing of an earlier step is left when a step begins");
  now_ = progress{step, lowered(step.what.ranks.at(std::size_t(seat_.part)))};
  const runtime::step_settings settings{.step = step.step,
                                        .training = step.what.training,
                                        .microbatches = step.what.microbatches,
                                        .logical_replicas = shared_->replicas()};
  submit(
      "begin", [settings](bench& on, runtime::stream&) { on.worker->begin_step(settings); }, [] {});
  request_batches();
  pump();
}

void stage_state::vote() {
  seen_.clear();  // nobody begins anything new before we have voted
  const auto& step = now_->step;
  const auto result
      = std::make_shared<messages::vote>(messages::vote{.generation = seat_.generation,
                                                        .step = step.step,
                                                        .replica = seat_.replica,
                                                        .part = seat_.part});
  const auto say = [this, result, training = step.what.training] {
    if (training)
      voted_ = result->step;
    now_.reset();
    shared_->planted->send(
        self_, caf::actor_cast<messages::replica_actor>(peers_.supervisor), *result);
  };
  const auto add_loss = [result](bench& on) {
    const auto loss = on.worker->loss(0);
    result->loss_total = loss.total;
    result->loss_tokens = loss.tokens;
  };
  if (!step.what.training)
    return submit(
        "loss", [add_loss](bench& on, runtime::stream&) { add_loss(on); }, say);
  submit(
      "reduce",
      [=, planted = shared_->planted, seat = seat_](bench& on, runtime::stream&) {
        planted->strike(fmt::format("lane:{}.{}", seat.replica, seat.part),
                        runtime::value(result->step));
        on.worker->reduce(*on.data, on.ties.get());
        add_loss(on);
        result->square_norms = on.worker->norms();
        result->gradients = on.worker->gradient_digest();
      },
      say);
}

void stage_state::decide(const messages::decision& x) {
  if (x.generation != seat_.generation)
    return;
  runtime::ensure(x.step == voted_, "STEP-1: nobody updates before everybody has voted");
  const auto result
      = std::make_shared<messages::applied>(messages::applied{.generation = seat_.generation,
                                                              .step = x.step,
                                                              .replica = seat_.replica,
                                                              .part = seat_.part});
  submit(
      "update",
      [x, result](bench& on, runtime::stream&) {
        on.worker->update({runtime::value(x.step), x.learning_rate, x.gradient_scale});
        result->digests = on.worker->digests();
      },
      [this, result] {
        shared_->planted->send(
            self_, caf::actor_cast<messages::replica_actor>(peers_.supervisor), *result);
      });
}

// The copy is made on the lane, between this step and the next; writing it is not our affair.
void stage_state::take_snapshot(const messages::take_snapshot& x) {
  if (x.generation != seat_.generation)
    return;
  const auto result = std::make_shared<messages::snapshot>(
      messages::snapshot{.generation = x.generation, .step = x.step, .part = seat_.part});
  submit(
      "snapshot",
      [result, by = shared_->transport](bench& on, runtime::stream& from) {
        result->parameters
            = runtime::deposit(*by, copied(on.worker->parameters(), from), result->generation);
        result->moments
            = runtime::deposit(*by, copied(on.worker->moments(), from), result->generation);
      },
      [this, result] {
        shared_->planted->send(
            self_, caf::actor_cast<messages::checkpointer_actor>(peers_.checkpointer), *result);
      });
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
      [self](const messages::decision& x) { self->state.decide(x); },
      [self](const messages::take_snapshot& x) { self->state.take_snapshot(x); },
      [self](const messages::lane_done& x) { self->state.finish(x); },
  };
}

}  // namespace troupe::actors

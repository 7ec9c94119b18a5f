#include "runtime/trainer/reference_trainer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/telemetry/trace.hpp"

#include <deque>
#include <utility>

namespace troupe::runtime {
namespace {

worker_settings whole_model(const recipe& recipe, std::shared_ptr<rank_estate> estate) {
  auto model = spec_of(recipe);
  const auto range = all_of(model);
  return {.model = std::move(model),
          .chunks = {{chunk_id(0), range}},
          .seed = recipe.seed,
          .optimizer = recipe.optimizer,
          .replicas = int(recipe.batch.data_parallel),
          .precision = recipe.precision,
          .per_token_loss = recipe.per_token_loss,
          .estate = std::move(estate)};
}

}  // namespace

reference_trainer::reference_trainer(const recipe& recipe,
                                     std::shared_ptr<const batch_source> data,
                                     stream& stream,
                                     std::shared_ptr<rank_estate> estate)
    : recipe_(recipe),
      data_(std::move(data)),
      stream_(stream),
      alone_(std::make_shared<local_group>(axis::data, 1, cancel_token()), 0),
      worker_(whole_model(recipe, std::move(estate)), stream, {.along = {{axis::data, &alone_}}}),
      at_(beginning(recipe)) {
  check(recipe.batch);
}

step_report reference_trainer::step() {
  const auto started = now_ns();
  const auto replicas = recipe_.batch.data_parallel;
  const auto consumed = std::int64_t(at_.consumed);
  const auto iteration = at_.iteration + 1;
  const step_settings now{.step = step_id(iteration),
                          .training = true,
                          .microbatches = microbatches(recipe_.batch, consumed),
                          .logical_replicas = replicas,
                          .loss_scale = at_.scale.factor()};
  const auto& estate = worker_.estate();
  if (estate != nullptr && !estate->newest())
    worker_.seal(at_.iteration, worker_.digests());
  worker_.begin_step(now);
  step_result result;
  for (int r = 0; r < int(replicas); ++r) {
    for (std::int64_t m = 0; m < now.microbatches; ++m) {
      const pass_key key{r, chunk_id(0), microbatch_id(m)};
      worker_.forward(
          key, to_bundle(data_->microbatch({at_.consumed, std::uint64_t(m), std::uint64_t(r)})));
      worker_.backward(key, {});
    }
  }
  worker_.reduce();
  result.losses.resize(std::size_t(replicas));
  reads wanted(stream_);
  for (int r = 0; r < int(replicas); ++r)
    worker_.loss(wanted, r, result.losses[std::size_t(r)]);
  worker_.norms(wanted, result.norms);
  wanted.finish();
  result.nonfinite_parameter = worker_.first_nonfinite(result.norms).name;
  const auto verdict = decide(recipe_, at_, result);
  if (verdict.stops)
    throw input_error("{}", diagnosis(verdict, at_));
  if (!verdict.skips())
    worker_.update(verdict.update);
  worker_.drop_gradients();

  step_report report;
  report.global_batch_size = global_batch_size(recipe_.batch, consumed);
  at_.consumed += std::uint64_t(report.global_batch_size);
  at_.skipped = verdict.skipped;
  at_.scale = verdict.scale;
  report.iteration = ++at_.iteration;
  report.consumed_samples = at_.consumed;
  report.consumed_tokens = at_.consumed * std::uint64_t(recipe_.model.sequence);
  report.lm_loss = verdict.loss;
  report.grad_norm = verdict.grad_norm;
  report.learning_rate = verdict.update.learning_rate;
  report.skipped = verdict.skipped;
  report.scale = verdict.scale;
  const auto digests = worker_.digests();
  if (estate != nullptr && verdict.skips())
    worker_.skip(at_.iteration);
  else if (estate != nullptr)
    worker_.seal(at_.iteration, digests);
  report.state = combine(digests.own);
  report.elapsed_ms = double(now_ns() - started) / 1e6;
  report.tokens_per_second
      = double(report.global_batch_size * recipe_.model.sequence) / (report.elapsed_ms / 1e3);
  return report;
}

double reference_trainer::evaluate(const batch_source& source, std::int64_t batches) {
  const auto replicas = recipe_.batch.data_parallel;
  const auto m_each = recipe_.batch.global / (recipe_.batch.micro * replicas);
  loss_value loss;
  for (std::int64_t b = 0; b < batches; ++b) {
    worker_.begin_step({step_id(at_.iteration), false, m_each, replicas});
    reads wanted(stream_);
    std::deque<loss_value> parts;
    for (int r = 0; r < int(replicas); ++r) {
      for (std::int64_t m = 0; m < m_each; ++m)
        worker_.forward(
            {r, chunk_id(0), microbatch_id(m)},
            to_bundle(source.microbatch(
                {std::uint64_t(b * recipe_.batch.global), std::uint64_t(m), std::uint64_t(r)})));
      worker_.loss(wanted, r, parts.emplace_back());
    }
    wanted.finish();
    for (const auto& part : parts) {
      loss.total += part.total;
      loss.tokens += part.tokens;
    }
  }
  return loss.mean();
}

void reference_trainer::resume_at(std::uint64_t iteration,
                                  std::uint64_t consumed,
                                  skipped_steps skipped,
                                  loss_scale scale) {
  at_ = {iteration, consumed, skipped, scale.is_used() ? scale : beginning(recipe_).scale};
}

}  // namespace troupe::runtime

#include "runtime/trainer/reference_trainer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/telemetry/trace.hpp"

#include <cmath>
#include <utility>

namespace troupe::runtime {
namespace {

worker_settings whole_model(const recipe& how) {
  return {.model = how.model,
          .own = how.own,
          .chunks = {{chunk_id(0), {0, how.model.layers, true, true}}},
          .seed = how.seed,
          .optimizer = how.optimizer,
          .replicas = int(how.batch.data_parallel),
          .precision = how.precision};
}

}  // namespace

update_decision decide(const recipe& how,
                       std::uint64_t iteration,
                       std::uint64_t consumed,
                       const square_norms& norms,
                       double* grad_norm) {
  for (const auto& [name, square] : norms)
    if (!square.is_finite())
      throw input_error(
          "iteration {}: the gradient of {} is not finite; the last committed state is that of "
          "iteration {}. Try a lower --lr, a longer warm-up or a smaller --clip-grad",
          iteration,
          name,
          iteration - 1);
  *grad_norm = total_norm(norms);
  return {.step = iteration,
          .learning_rate = how.rate_of.at ? how.rate_of.at(std::int64_t(consumed))
                                          : learning_rate(how.rate, std::int64_t(consumed)),
          .gradient_scale = clip_coefficient(*grad_norm, how.optimizer.clip)};
}

reference_trainer::reference_trainer(const recipe& how,
                                     std::shared_ptr<const batch_source> data,
                                     stream& on)
    : recipe_(how),
      data_(std::move(data)),
      alone_(std::make_shared<local_group>(axis::data, 1, cancel_token()), 0),
      worker_(whole_model(how), on, {.data = &alone_}) {
  check(how.batch);
}

step_report reference_trainer::step() {
  const auto started = now_ns();
  const auto replicas = recipe_.batch.data_parallel;
  const auto consumed = std::int64_t(consumed_);
  const step_settings now{.step = step_id(iteration_ + 1),
                          .training = true,
                          .microbatches = microbatches(recipe_.batch, consumed),
                          .logical_replicas = replicas};
  worker_.begin_step(now);
  loss_value loss;
  for (int r = 0; r < int(replicas); ++r) {
    for (std::int64_t m = 0; m < now.microbatches; ++m) {
      const pass_key key{r, chunk_id(0), microbatch_id(m)};
      worker_.forward(key, data_->microbatch({consumed_, std::uint64_t(m), std::uint64_t(r)}));
      worker_.backward(key, {});
    }
    const auto part = worker_.loss(r);
    loss.total += part.total;
    loss.tokens += part.tokens;
  }
  worker_.reduce();
  step_report report;
  const auto decision
      = decide(recipe_, iteration_ + 1, consumed_, worker_.norms(), &report.grad_norm);
  worker_.update(decision);

  report.global_batch_size = global_batch_size(recipe_.batch, consumed);
  consumed_ += std::uint64_t(report.global_batch_size);
  report.iteration = ++iteration_;
  report.consumed_samples = consumed_;
  report.lm_loss = loss.total / std::max(loss.tokens, 1.0);
  report.learning_rate = decision.learning_rate;
  report.state = combine(worker_.digests().own);
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
    worker_.begin_step({step_id(iteration_), false, m_each, replicas});
    for (int r = 0; r < int(replicas); ++r) {
      for (std::int64_t m = 0; m < m_each; ++m)
        worker_.forward(
            {r, chunk_id(0), microbatch_id(m)},
            source.microbatch(
                {std::uint64_t(b * recipe_.batch.global), std::uint64_t(m), std::uint64_t(r)}));
      const auto part = worker_.loss(r);
      loss.total += part.total;
      loss.tokens += part.tokens;
    }
  }
  return loss.total / std::max(loss.tokens, 1.0);
}

void reference_trainer::resume_at(std::uint64_t iteration, std::uint64_t consumed) {
  iteration_ = iteration;
  consumed_ = consumed;
}

}  // namespace troupe::runtime

// A job that takes milliseconds: a small GPT on made-up tokens.

#pragma once

#include "actors/job/run.hpp"
#include "runtime/core/random.hpp"
#include "runtime/transport/local/local_transport.hpp"

#include <memory>
#include <mutex>
#include <vector>

namespace troupe::tests {

/// Token (sample, t) is a function of its place, with a little structure to learn.
class formula_source final : public runtime::batch_source {
 public:
  formula_source(const runtime::recipe& how, bool masked) : how_(how), masked_(masked) {}

  runtime::bundle microbatch(const runtime::microbatch_address& at) const override {
    const auto B = how_.batch.micro, T = how_.model.sequence;
    runtime::batch x;
    x.B = B;
    x.T = T;
    for (std::int64_t b = 0; b < B; ++b) {
      const auto sample
          = runtime::sample_position({std::uint64_t(B), std::uint64_t(how_.batch.data_parallel)},
                                     at.consumed,
                                     at.microbatch,
                                     at.replica,
                                     std::uint64_t(b));
      x.positions.push_back(sample);
      for (std::int64_t t = 0; t < T; ++t) {
        x.tokens.push_back(token(sample, t));
        x.labels.push_back(token(sample, t + 1));
        x.loss_mask.push_back(masked_ && (sample + std::uint64_t(t)) % 5 == 0 ? 0.0F : 1.0F);
        x.position_ids.push_back(std::int32_t(t));
      }
    }
    return runtime::to_bundle(x, pool_);
  }

 private:
  std::int32_t token(std::uint64_t sample, std::int64_t t) const {
    const auto noise = runtime::uniform(sample, std::uint64_t(t));
    const auto period = std::int64_t(sample % 3) + 2;
    return noise < 0.2 ? std::int32_t(noise * 5 * double(how_.model.vocabulary))
                       : std::int32_t((t % period) * 3 % how_.model.vocabulary);
  }

  runtime::recipe how_;
  bool masked_;
  mutable runtime::memory_pool pool_;
};

inline runtime::training_job tiny_job(int pipeline, int data) {
  runtime::training_job job;
  auto& m = job.how.model;
  m.layers = 4;
  m.hidden = 32;
  m.heads = 4;
  m.groups = 4;
  m.head_size = 8;
  m.ffn = 64;
  m.sequence = 16;
  m.positions = 16;
  m.vocabulary = 61;
  m.padded_vocabulary = 64;
  m.hidden_dropout = 0.1;
  m.attention_dropout = 0.1;
  job.how.rate = {.maximum = 3e-3,
                  .minimum = 3e-4,
                  .warmup = 16,
                  .decay = 400,
                  .style = runtime::decay_style::cosine};
  job.how.batch = {.micro = 2, .global = 8, .data_parallel = data};
  job.layout = {.world = pipeline * data, .pipeline = pipeline};
  job.train_iterations = 12;
  job.watch.log_interval = 0;
  job.watch.progress = false;
  return job;
}

inline std::shared_ptr<actors::resources> tiny_resources(const runtime::training_job& job) {
  auto out = std::make_shared<actors::resources>(actors::resources{
      .job = job,
      .mesh = runtime::make_mesh(job.layout.world, 1, 1, job.layout.pipeline, job.layout.order),
      .chunks = runtime::split_evenly(job.how.model, job.layout.pipeline)});
  out->training = std::make_shared<formula_source>(job.how, true);
  if (job.watch.eval_interval > 0)
    out->validation = std::make_shared<formula_source>(job.how, false);
  out->transport = std::make_shared<runtime::local_transport>(1);
  out->trace = std::make_shared<runtime::trace_recorder>();
  out->planted = std::make_shared<actors::disturbance>(job.disturbance);
  return out;
}

/// The same job without a single actor.
inline std::vector<runtime::step_report> by_reference_trainer(const runtime::training_job& job) {
  runtime::stream on(job.backend, job.threads_per_worker, {});
  runtime::reference_trainer trainer(job.how, std::make_shared<formula_source>(job.how, true), on);
  std::vector<runtime::step_report> out;
  for (std::uint64_t i = 0; i < job.train_iterations; ++i)
    out.push_back(trainer.step());
  return out;
}

}  // namespace troupe::tests

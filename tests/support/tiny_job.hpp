// A job that takes milliseconds: a small GPT on made-up tokens.

#pragma once

#include "actors/faults/inject.hpp"
#include "actors/job/prepare.hpp"
#include "actors/job/run.hpp"
#include "runtime/data/batch_source.hpp"
#include "runtime/family/family_samples.hpp"
#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/job/pipeline.hpp"
#include "tests/support/formula_source.hpp"

#include <memory>
#include <vector>

namespace troupe::tests {

inline runtime::training_job tiny_job(int pipeline, int data, int tensor = 1) {
  runtime::training_job job;
  auto& m = job.training.model.as<runtime::gpt_config>();
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
  job.training.rate = {.maximum = 3e-3,
                       .minimum = 3e-4,
                       .warmup = 16,
                       .decay = 400,
                       .style = runtime::decay_style::cosine};
  job.training.batch = {.micro = 2, .global = 8, .data_parallel = data};
  job.layout = {.world = tensor * pipeline * data, .tensor = tensor, .pipeline = pipeline};
  job.train_iterations = 12;
  job.watch.log_interval = 0;
  job.watch.progress = false;
  job.check_messages = true;
  job.watch.straggler_ratio = 0;  // tests do not depend on the speed of the machine
  return job;
}

/// tiny_job for benchmarks: does not check messages, which would cost time.
inline runtime::training_job measured_job(int pipeline, int data) {
  auto job = tiny_job(pipeline, data);
  job.check_messages = false;
  return job;
}

/// Runs the replicas of a job on fewer workers; each worker computes `each` replicas in turn.
inline void play_in_turn(runtime::training_job& job, int each) {
  job.layout.replicas_per_worker = each;
  job.layout.world /= each;
}

/// Changes the model to a Llama-like one: RoPE, RMSNorm, SwiGLU, head norms, a window, no biases.
inline void make_llama(runtime::gpt_config& m) {
  m.position = runtime::position_embedding::rope;
  m.normalization = kernels::normalization::rms;
  m.activation = kernels::activation::silu;
  m.gated = true;
  m.heads = 8;
  m.head_size = 8;
  m.qk_norm = true;
  // Heads of size 8 have norms near zero; with 1e-5 rounding errors would decide them.
  m.norm_epsilon = 1e-2;
  m.window = 9;
  m.linear_bias = false;
}

/// The made-up samples of the model's family, or those of formula_source.
inline std::shared_ptr<const runtime::batch_source> made_up_source(const runtime::training_job& job,
                                                                   runtime::data_split part) {
  const auto& x = job.training;
  if (auto own = runtime::made_up_batches(
          x.model,
          part,
          {std::uint64_t(x.batch.micro), std::uint64_t(x.batch.data_parallel)},
          x.seed))
    return own;
  return std::make_shared<formula_source>(x, part == runtime::data_split::train);
}

/// The job with a replica in place of each copy of the model, and one chunk for each rank.
inline runtime::training_job with_copies_as_replicas(runtime::training_job job) {
  if (const int copies = runtime::pipeline_of(job).schedule->copies(); copies > 1) {
    job.layout.schedule = {};
    job.layout.world *= copies;
    job.training.batch.data_parallel *= copies;
  }
  return job;
}

/// Prepares the job to run on made-up samples.
inline std::shared_ptr<actors::prepared_job> tiny_prepared(const runtime::training_job& job) {
  auto out = std::make_shared<actors::prepared_job>();
  auto& node = *out->node;
  out->description = actors::describe(job, node);
  out->description.identity = runtime::identity(job);
  node.training = made_up_source(job, runtime::data_split::train);
  out->description.validates = job.watch.eval_interval > 0;
  if (out->description.validates)
    node.validation = made_up_source(job, runtime::data_split::valid);
  node.transport = actors::make_transport(job.transport, job.recovery.suspicion);
  node.trace = std::make_shared<runtime::trace_recorder>();
  actors::add_message_path(node, job);
  actors::inject(node, job.faults);
  return out;
}

/// The layout of the job that decides bits. Experts of other replicas, or of a part of one, need
/// the data ranks. So do several sources: the order of sums is (data rank, source, replica). A loss
/// over replicas needs one for each.
inline runtime::reference_layout reference_layout_of(const runtime::training_job& job) {
  const auto& of = job.layout;
  const bool in_replicas = of.expert * of.expert_tensor_ranks() == of.tensor;
  int data = in_replicas && !of.sums_by_source() ? 1 : of.world / (of.tensor * of.pipeline);
  for (const auto& loss : losses_of(job.training))
    if (loss.over_replicas)
      data = int(job.training.batch.data_parallel);
  return {.tensor = of.tensor,
          .data = data,
          .expert = of.expert,
          .expert_tensor = of.expert_tensor_ranks(),
          .expert_sums = of.expert_sums,
          .sequence_parallel = of.sequence_parallel,
          .grain = job.reduction.grain};
}

/// Runs the same job without actors.
inline std::vector<runtime::step_report> by_reference_trainer(const runtime::training_job& of) {
  const auto job = with_copies_as_replicas(of);
  runtime::stream stream(job.backend, job.threads_per_worker, {});
  runtime::reference_trainer trainer(job.training,
                                     made_up_source(job, runtime::data_split::train),
                                     stream,
                                     reference_layout_of(job));
  std::vector<runtime::step_report> out;
  for (std::uint64_t i = 0; i < job.train_iterations; ++i)
    out.push_back(trainer.step());
  return out;
}

}  // namespace troupe::tests

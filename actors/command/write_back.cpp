#include "actors/command/flags.hpp"

namespace troupe::command {
namespace {

template <class T, class U>
void decide(std::optional<T>& flag, const U& value) {
  if (!flag)
    flag = T(value);
}

/// Decides a setting that was not given.
template <class T>
void decide(training_flags& flags, const char* setting, T& to, const T& value) {
  if (flags.given.insert(setting).second)
    to = value;
}

void write_shape_back(const runtime::gpt_config& model, training_flags& flags) {
  auto& asked = flags.model;
  auto& said = flags.job.training.model;
  decide(flags, "model.hidden_dropout", said.hidden_dropout, model.hidden_dropout);
  decide(flags, "model.attention_dropout", said.attention_dropout, model.attention_dropout);
  if (!flags.job.checkpoints.load_hub.empty())
    return;  // the rest of the shape is in the Hugging Face folder
  decide(flags, "model.ffn", said.ffn, model.ffn);
  decide(flags, "model.head_size", said.head_size, model.head_size);
  decide(flags, "model.positions", said.positions, model.positions);
  decide(flags, "model.norm_epsilon", said.norm_epsilon, model.norm_epsilon);
  decide(asked.normalization, "LayerNorm");
  if (asked.grouped_queries)
    decide(flags, "model.groups", said.groups, model.groups);
  if (!asked.no_position)
    decide(asked.position, "learned_absolute");
  if (model.position == runtime::position_embedding::rope) {
    decide(flags, "model.rotary_base", said.rotary_base, model.rotary_base);
    decide(flags, "model.rotary_percent", said.rotary_percent, model.rotary_percent);
  }
}

}  // namespace

void write_back(const runtime::training_job& job, training_flags& flags) {
  write_shape_back(job.training.model, flags);
  decide(flags, "layout.world", flags.job.layout.world, job.layout.world);
  decide(flags, "recovery.on", flags.job.recovery.on, job.recovery.on);
  decide(flags, "threads_per_worker", flags.job.threads_per_worker, job.threads_per_worker);
  auto& batch = flags.job.training.batch;
  decide(flags, "batch.global", batch.global, job.training.batch.global);
  if (flags.steps.samples)
    decide(flags.rate.decay_samples, *flags.steps.samples);
  else
    decide(flags.rate.decay_iterations, job.train_iterations);
}

}  // namespace troupe::command

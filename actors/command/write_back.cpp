#include "actors/command/flags.hpp"

namespace troupe::command {
namespace {

template <class T, class U>
void decide(std::optional<T>& flag, const U& value) {
  if (!flag)
    flag = T(value);
}

void write_shape_back(const runtime::gpt_config& model, training_flags& flags) {
  auto& m = flags.model;
  decide(m.hidden_dropout, model.hidden_dropout);
  decide(m.attention_dropout, model.attention_dropout);
  if (!flags.job.checkpoints.load_hub.empty())
    return;  // the rest of the shape is in the Hugging Face folder
  decide(m.ffn, model.ffn);
  decide(m.head_size, model.head_size);
  decide(m.positions, model.positions);
  decide(m.norm_epsilon, model.norm_epsilon);
  decide(m.normalization, "LayerNorm");
  if (m.grouped_queries)
    decide(m.query_groups, model.groups);
  if (!m.no_position)
    decide(m.position, "learned_absolute");
  if (model.position == runtime::position_embedding::rope) {
    decide(m.rotary_base, model.rotary_base);
    decide(m.rotary_percent, model.rotary_percent);
  }
}

}  // namespace

void write_back(const runtime::training_job& job, training_flags& flags) {
  write_shape_back(job.training.model, flags);
  decide(flags.layout.world, job.layout.world);
  decide(flags.recovery, job.recovery.on ? "on" : "off");
  decide(flags.layout.threads, job.threads_per_worker);
  decide(flags.steps.global, job.training.batch.global);
  if (flags.steps.samples)
    decide(flags.rate.decay_samples, *flags.steps.samples);
  else
    decide(flags.rate.decay_iterations, job.train_iterations);
}

}  // namespace troupe::command

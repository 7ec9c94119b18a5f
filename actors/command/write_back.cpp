#include "actors/command/flags.hpp"

namespace troupe::command {
namespace {

template <class T, class U>
void decide(std::optional<T>& flag, const U& value) {
  if (!flag)
    flag = T(value);
}

void write_shape_back(const runtime::gpt_config& model, training_flags& flags) {
  auto& asked = flags.model;
  auto& said = flags.job.training.model;
  const auto decide_row = [&](const char* setting, auto member) {
    if (flags.given.insert(setting).second)
      said.*member = model.*member;
  };
  using runtime::gpt_config;
  decide_row("model.hidden_dropout", &gpt_config::hidden_dropout);
  decide_row("model.attention_dropout", &gpt_config::attention_dropout);
  if (!flags.job.checkpoints.load_hub.empty())
    return;  // the rest of the shape is in the Hugging Face folder
  decide_row("model.ffn", &gpt_config::ffn);
  decide_row("model.head_size", &gpt_config::head_size);
  decide_row("model.positions", &gpt_config::positions);
  decide_row("model.norm_epsilon", &gpt_config::norm_epsilon);
  decide(asked.normalization, "LayerNorm");
  if (asked.grouped_queries)
    decide_row("model.groups", &gpt_config::groups);
  if (!asked.no_position)
    decide(asked.position, "learned_absolute");
  if (model.position == runtime::position_embedding::rope) {
    decide_row("model.rotary_base", &gpt_config::rotary_base);
    decide_row("model.rotary_percent", &gpt_config::rotary_percent);
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

#include "actors/command/flags.hpp"
#include "runtime/checkpoint/hub.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/file.hpp"
#include "runtime/data/split.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/model/choices.hpp"
#include "runtime/tokenizer/description.hpp"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

namespace troupe::command {
namespace {

using runtime::activation_kind;
using runtime::gpt_config;
using runtime::normalization_kind;
using runtime::position_embedding;
using sentences = std::vector<std::string>;

/// Runs one part of the work; what it throws becomes a sentence, so that all are told at once.
template <class Work>
void collect(sentences& wrong, Work&& work) {
  try {
    work();
  } catch (const runtime::error& failure) {
    wrong.emplace_back(failure.what());
  }
}

std::string together(const sentences& wrong) {
  if (wrong.size() == 1)
    return wrong.front();
  std::string out = "this run cannot start:";
  for (const auto& sentence : wrong)
    out += "\n  " + sentence;
  return out;
}

position_embedding position_of(const training_flags& flags) {
  const auto name = flags.model.position.value_or("learned_absolute");
  if (name == "rope")
    return position_embedding::rope;
  return name == "none" || flags.model.no_position ? position_embedding::none
                                                   : position_embedding::learned_absolute;
}

activation_kind activation_of(const training_flags& flags) {
  if (flags.model.swiglu)
    return activation_kind::swiglu;
  return flags.model.exact_gelu ? activation_kind::gelu_erf : activation_kind::gelu_tanh;
}

normalization_kind normalization_of(const training_flags& flags) {
  return flags.model.normalization == "RMSNorm" ? normalization_kind::rms
                                                : normalization_kind::layer;
}

/// Megatron-LM keeps the parameters of a gated layer those of an ungated one of 4 C.
std::int64_t usual_ffn(const gpt_config& x) {
  if (x.activation != activation_kind::swiglu)
    return 4 * x.hidden;
  return std::int64_t(double(4 * x.hidden) * 2 / 3) / 64 * 64;
}

gpt_config shape_from_flags(const training_flags& flags, sentences& wrong) {
  const auto& m = flags.model;
  const std::pair<const char*, bool> needed[] = {{"--num-layers", m.layers.has_value()},
                                                 {"--hidden-size", m.hidden.has_value()},
                                                 {"--num-attention-heads", m.heads.has_value()},
                                                 {"--seq-length", m.sequence.has_value()}};
  for (const auto& [flag, given] : needed)
    if (!given)
      wrong.push_back(
          fmt::format("{} is missing; without --load-hf the model's shape is given by "
                      "flags",
                      flag));
  gpt_config out;
  out.layers = m.layers.value_or(1);
  out.hidden = m.hidden.value_or(64);
  out.heads = m.heads.value_or(1);
  if (m.query_groups && !m.grouped_queries)
    wrong.push_back(fmt::format(
        "--num-query-groups {} does nothing without --group-query-attention: add it, or leave "
        "both out",
        *m.query_groups));
  out.groups = m.grouped_queries ? m.query_groups.value_or(1) : out.heads;
  if (!m.head_size && out.hidden % out.heads != 0)
    wrong.push_back(fmt::format(
        "--hidden-size {} is not a multiple of --num-attention-heads {}: choose another, or give "
        "the size of a head by --kv-channels",
        out.hidden,
        out.heads));
  out.head_size = m.head_size.value_or(std::max<std::int64_t>(out.hidden / out.heads, 1));
  out.activation = activation_of(flags);
  out.ffn = m.ffn.value_or(usual_ffn(out));
  out.sequence = m.sequence.value_or(1);
  out.positions = m.positions.value_or(out.sequence);
  out.position = position_of(flags);
  out.rotary_base = m.rotary_base.value_or(10000);
  out.rotary_percent = m.rotary_percent.value_or(1);
  out.rotary_interleaved = m.rotary_interleaved;
  out.normalization = normalization_of(flags);
  out.norm_epsilon = m.norm_epsilon.value_or(1e-5);
  out.linear_bias = !m.no_linear_bias;
  out.qkv_bias = m.qkv_bias;
  out.tied_embeddings = !m.untied;
  out.hidden_dropout = m.hidden_dropout.value_or(0.1);
  out.attention_dropout = m.attention_dropout.value_or(0.1);
  return out;
}

/// The shape of a model that is there already. Flags may repeat it; dropout, and a --seq-length
/// that its positions reach, are not part of it.
gpt_config shape_from_hub(const training_flags& flags, sentences& wrong) {
  const auto& m = flags.model;
  const auto file = m.hub / "config.json";
  auto out = runtime::hub_config(runtime::read_text(file), fmt::format("'{}'", file.string()));
  const auto agree = [&](const char* flag, const auto& given, const auto& there) {
    if (given && *given != there)
      wrong.push_back(fmt::format(
          "{} {} contradicts --load-hf '{}', whose config.json says {}: leave the flag out",
          flag,
          *given,
          m.hub.string(),
          there));
  };
  const auto must_be = [&](const char* flag, bool given, bool there) {
    if (given && !there)
      wrong.push_back(
          fmt::format("{} contradicts --load-hf '{}', whose config.json says otherwise: leave the "
                      "flag out",
                      flag,
                      m.hub.string()));
  };
  agree("--num-layers", m.layers, out.layers);
  agree("--hidden-size", m.hidden, out.hidden);
  agree("--num-attention-heads", m.heads, out.heads);
  agree("--num-query-groups", m.query_groups, out.groups);
  agree("--kv-channels", m.head_size, out.head_size);
  agree("--ffn-hidden-size", m.ffn, out.ffn);
  agree("--max-position-embeddings", m.positions, out.positions);
  agree("--rotary-base", m.rotary_base, out.rotary_base);
  agree("--rotary-percent", m.rotary_percent, out.rotary_percent);
  agree("--norm-epsilon", m.norm_epsilon, out.norm_epsilon);
  must_be("--group-query-attention", m.grouped_queries, out.groups < out.heads);
  must_be("--position-embedding-type", m.position.has_value(), out.position == position_of(flags));
  must_be("--no-position-embedding",
          m.no_position,
          out.position != position_embedding::learned_absolute);
  must_be("--rotary-interleaved", m.rotary_interleaved, out.rotary_interleaved);
  must_be(
      "--normalization", m.normalization.has_value(), out.normalization == normalization_of(flags));
  must_be("--swiglu", m.swiglu, out.activation == activation_kind::swiglu);
  must_be("--no-bias-gelu-fusion", m.exact_gelu, out.activation == activation_kind::gelu_erf);
  must_be("--disable-bias-linear", m.no_linear_bias, !out.linear_bias);
  must_be("--add-qkv-bias", m.qkv_bias, out.qkv_bias);
  must_be("--untie-embeddings-and-output-weights", m.untied, !out.tied_embeddings);
  out.sequence = m.sequence.value_or(out.sequence);
  out.hidden_dropout = m.hidden_dropout.value_or(out.hidden_dropout);
  out.attention_dropout = m.attention_dropout.value_or(out.attention_dropout);
  return out;
}

void resolve_model(const training_flags& flags, runtime::training_job& job, sentences& wrong) {
  auto& model = job.how.model;
  bool known = false;
  collect(wrong, [&] {
    model = flags.model.hub.empty() ? shape_from_flags(flags, wrong) : shape_from_hub(flags, wrong);
    known = true;
  });
  model.init_std = flags.model.init_std;
  collect(wrong, [&] {
    const auto tokens = make(flags.tokenizer);
    job.data.end_of_document = tokens->end_of_document();
    job.tokenizer_description = runtime::describe(choice_of(flags.tokenizer), *tokens);
    if (flags.model.hub.empty())
      model.vocabulary = tokens->vocabulary_size();
    else if (known && tokens->vocabulary_size() > model.vocabulary)
      throw usage_error(
          "the tokenizer has {} tokens, but the model of --load-hf knows {}: use the tokenizer "
          "that it was trained with",
          tokens->vocabulary_size(),
          model.vocabulary);
    model.padded_vocabulary
        = runtime::padded_vocabulary_size(model.vocabulary, flags.model.vocabulary_divisor, 1);
  });
}

void resolve_data(const training_flags& flags, runtime::training_job& job, sentences& wrong) {
  const auto& d = flags.data;
  job.data.mock = d.mock;
  job.data.split = d.split;
  if (!d.cache.empty())
    job.data.cache = d.cache;
  job.data.eod_mask_loss = d.eod_mask_loss;
  job.data.reset_position_ids = d.reset_position_ids;
  if (d.path.size() > 1)
    wrong.push_back(fmt::format(
        "--data-path got {} words: blends of weighted data sets are not in this build; give one "
        "prefix",
        d.path.size()));
  if (!d.path.empty())
    job.data.path = d.path.front();
  if (d.per_token_loss && d.eod_mask_loss)
    wrong.emplace_back(
        "--calculate-per-token-loss is refused with --eod-mask-loss: samples then differ in the "
        "tokens that count, and this build averages over each micro-batch first; leave one out");
}

void resolve_layout(const training_flags& flags, runtime::training_job& job, sentences& wrong) {
  const auto& l = flags.layout;
  job.layout.pipeline = int(l.pipeline);
  job.layout.world = int(l.world.value_or(l.pipeline));
  if (l.pipeline_before_data)
    job.layout.order = "tp-cp-ep-pp-dp";
  const auto cores = std::max(1U, std::thread::hardware_concurrency());
  job.threads_per_worker
      = int(l.threads.value_or(std::max<std::int64_t>(1, cores / job.layout.world)));
  job.backend = runtime::backend_from(l.backend).value_or(runtime::backend_kind::cpu);
  auto& batch = job.how.batch;
  batch.data_parallel = std::max(1, job.layout.world / job.layout.pipeline);
  if (!flags.steps.micro)
    wrong.emplace_back("--micro-batch-size is missing: how many samples pass a stage at once");
  batch.micro = flags.steps.micro.value_or(1);
  batch.global = flags.steps.global.value_or(batch.micro * batch.data_parallel);
  if (flags.steps.ramp.size() == 3) {
    batch.ramp_start = flags.steps.ramp[0];
    batch.ramp_increment = flags.steps.ramp[1];
    batch.ramp_samples = flags.steps.ramp[2];
    if (batch.ramp_start == 0)
      wrong.emplace_back("--rampup-batch-size: START is 0; give at least 1");
  }
}

/// Steps of a run that is counted in samples: a partial last batch is left out, as in Megatron-LM.
std::int64_t steps_of_samples(const runtime::batch_schedule& batch, std::int64_t samples) {
  std::int64_t steps = 0, consumed = 0;
  while (batch.ramp_start > 0 && consumed <= batch.ramp_samples && consumed <= samples) {
    consumed += runtime::global_batch_size(batch, consumed);
    ++steps;
  }
  return steps + std::max<std::int64_t>(samples - consumed, 0) / batch.global;
}

/// Megatron-LM counts rates in samples; steps are taken to be of the full batch size.
void resolve_steps(const training_flags& flags, runtime::training_job& job, sentences& wrong) {
  const auto& s = flags.steps;
  const auto& r = flags.rate;
  auto& rate = job.how.rate;
  const auto& batch = job.how.batch;
  const bool in_samples = s.samples.has_value();
  if (s.iterations.has_value() == in_samples)
    wrong.emplace_back(in_samples ? "--train-iters and --train-samples both say how long: give one"
                                  : "how long? give --train-iters or --train-samples");
  const auto foreign = [&](const char* flag, bool given, bool of_samples) {
    if (given && of_samples != in_samples)
      wrong.push_back(fmt::format("{} does not go with {}: count both in {}",
                                  flag,
                                  in_samples ? "--train-samples" : "--train-iters",
                                  in_samples ? "samples" : "iterations"));
  };
  foreign("--lr-decay-iters", r.decay_iterations.has_value(), false);
  foreign("--lr-warmup-iters", r.warmup_iterations.has_value(), false);
  foreign("--lr-decay-samples", r.decay_samples.has_value(), true);
  foreign("--lr-warmup-samples", r.warmup_samples.has_value(), true);
  if (r.warmup_fraction && (r.warmup_iterations || r.warmup_samples))
    wrong.emplace_back(
        "--lr-warmup-fraction says again what --lr-warmup-iters or "
        "--lr-warmup-samples says: give one");
  if (!r.maximum)
    wrong.emplace_back("--lr is missing: the highest learning rate");

  if (batch.global < 1 || (batch.ramp_start > 0 && batch.ramp_increment < 1))
    return;  // the rules of the batch are told elsewhere
  job.train_iterations
      = std::uint64_t(in_samples ? steps_of_samples(batch, *s.samples) : s.iterations.value_or(0));
  const auto whole_run
      = in_samples ? *s.samples : std::int64_t(job.train_iterations) * batch.global;
  rate.decay = in_samples
                   ? r.decay_samples.value_or(whole_run)
                   : r.decay_iterations.value_or(std::int64_t(job.train_iterations)) * batch.global;
  rate.warmup
      = in_samples ? r.warmup_samples.value_or(0) : r.warmup_iterations.value_or(0) * batch.global;
  if (r.warmup_fraction)
    rate.warmup = std::llround(*r.warmup_fraction * double(rate.decay));
  rate.maximum = r.maximum.value_or(0);
  rate.minimum = r.minimum;
  rate.warmup_start = r.warmup_start;
  rate.style = r.style == "cosine"   ? runtime::decay_style::cosine
               : r.style == "linear" ? runtime::decay_style::linear
                                     : runtime::decay_style::constant;
}

/// Without documents for it there is no validation, as in Megatron-LM: --split 100,0,0 says so.
void resolve_watching(const training_flags& flags, runtime::training_job& job, sentences& wrong) {
  job.watch = flags.watch;
  collect(wrong, [&] {
    const runtime::split_matrix split(job.data.split);
    if (!split.share(runtime::data_split::valid) || job.watch.eval_batches == 0)
      job.watch.eval_interval = 0;
  });
}

}  // namespace

runtime::training_job resolve(const training_flags& flags, const std::vector<std::string>& words) {
  runtime::training_job job;
  sentences wrong;
  resolve_model(flags, job, wrong);
  resolve_data(flags, job, wrong);
  resolve_layout(flags, job, wrong);
  resolve_steps(flags, job, wrong);
  resolve_watching(flags, job, wrong);
  job.how.seed = std::uint64_t(flags.optimizer.seed);
  job.how.optimizer = flags.optimizer.adam;
  job.checkpoints = flags.checkpoints;
  job.checkpoints.load_hub = flags.model.hub;
  job.disturbance = flags.disturbance;
  job.exit_interval = std::uint64_t(flags.steps.exit_interval);
  job.command_line = words;
  if (wrong.empty())
    wrong = runtime::complaints(job);
  if (!wrong.empty())
    throw usage_error("{}", together(wrong));
  return job;
}

}  // namespace troupe::command

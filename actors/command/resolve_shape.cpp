#include "actors/command/hub_models.hpp"
#include "actors/command/resolve_parts.hpp"
#include "runtime/checkpoint/hub.hpp"
#include "runtime/model/choices.hpp"

#include <algorithm>
#include <utility>

namespace troupe::command {
namespace {

using runtime::activation_kind;
using runtime::gpt_config;
using runtime::normalization_kind;
using runtime::position_embedding;
using runtime::rope_scaling;

position_embedding position_of(const training_flags& flags) {
  const auto name = flags.model.position.value_or("learned_absolute");
  if (name == "rope" || name == "yarn")
    return position_embedding::rope;
  return name == "none" || flags.model.no_position ? position_embedding::none
                                                   : position_embedding::learned_absolute;
}

rope_scaling scaling_of(const training_flags& flags) {
  if (flags.model.position == "yarn")
    return rope_scaling::yarn;
  return flags.model.rope_scaling ? rope_scaling::llama3 : rope_scaling::none;
}

activation_kind activation_of(const training_flags& flags) {
  if (flags.model.swiglu)
    return activation_kind::swiglu;
  if (flags.model.squared_relu)
    return activation_kind::squared_relu;
  // Megatron-LM's fused kernel has the tanh formula and adds a bias, so it is off without biases.
  return flags.model.exact_gelu || flags.model.no_linear_bias ? activation_kind::gelu_erf
                                                              : activation_kind::gelu_tanh;
}

normalization_kind normalization_of(const training_flags& flags) {
  return flags.model.normalization == "RMSNorm" ? normalization_kind::rms
                                                : normalization_kind::layer;
}

/// Megatron-LM gives a gated layer as many parameters as an ungated one of width 4 C.
std::int64_t usual_ffn(const gpt_config& x) {
  if (x.activation != activation_kind::swiglu)
    return 4 * x.hidden;
  return std::int64_t(double(4 * x.hidden) * 2 / 3) / 64 * 64;
}

void resolve_rotary(const training_flags& flags, gpt_config& out, sentences& wrong) {
  const auto& m = flags.model;
  const auto& y = m.yarn;
  out.rotary_base = m.rotary_base.value_or(10000);
  out.rotary_percent = m.rotary_percent.value_or(1);
  out.rotary_interleaved = m.rotary_interleaved;
  out.rotary_interpolation = double(m.rotary_interpolation.value_or(1));
  out.scaling = scaling_of(flags);
  if (out.scaling == rope_scaling::llama3)
    out.scaling_factor = m.rope_scaling_factor.value_or(8);
  else if (m.rope_scaling_factor)
    wrong.push_back(fmt::format(
        "--rope-scaling-factor {} does nothing without --use-rope-scaling: add it, or leave both "
        "out",
        *m.rope_scaling_factor));
  const bool stretched
      = y.factor || y.fast || y.slow || y.mscale || y.mscale_all || y.positions || y.round;
  if (out.scaling != rope_scaling::yarn) {
    if (stretched)
      wrong.emplace_back(
          "--rotary-scaling-factor, --mscale and --yarn-... do nothing without "
          "--position-embedding-type yarn: add it, or leave them out");
    return;
  }
  if (m.rope_scaling)
    wrong.emplace_back(
        "--use-rope-scaling stretches as Llama 3 does, --position-embedding-type yarn as YaRN: "
        "give one");
  out.scaling_factor = y.factor.value_or(1);
  out.scaling_positions = y.positions.value_or(4096);
  out.yarn_fast = y.fast.value_or(32);
  out.yarn_slow = y.slow.value_or(1);
  out.yarn_mscale = y.mscale.value_or(1);
  out.yarn_mscale_all = y.mscale_all.value_or(0);
  out.yarn_round = y.round.value_or(true);
}

}  // namespace

gpt_config shape_from_flags(const training_flags& flags, sentences& wrong) {
  const auto& m = flags.model;
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
  if (m.hidden && m.heads && !m.head_size && out.hidden % out.heads != 0)
    wrong.push_back(fmt::format(
        "--hidden-size {} is not a multiple of --num-attention-heads {}: give the nearest "
        "multiple, --hidden-size {}, or the size of a head by --kv-channels",
        out.hidden,
        out.heads,
        std::max<std::int64_t>(1, (out.hidden + out.heads / 2) / out.heads) * out.heads));
  out.head_size = m.head_size.value_or(std::max<std::int64_t>(out.hidden / out.heads, 1));
  if (m.swiglu && m.squared_relu)
    wrong.emplace_back("--swiglu and --squared-relu are both activations: give one");
  out.activation = activation_of(flags);
  out.ffn = m.ffn.value_or(usual_ffn(out));
  out.sequence = m.sequence.value_or(1);
  out.positions = m.positions.value_or(out.sequence);
  out.position = position_of(flags);
  resolve_rotary(flags, out, wrong);
  out.normalization = normalization_of(flags);
  out.norm_epsilon = m.norm_epsilon.value_or(1e-5);
  out.gain_offset = m.gains_less_one ? 1 : 0;
  out.qk_norm = m.qk_norm;
  out.window = m.window.value_or(-1);
  out.linear_bias = !m.no_linear_bias;
  out.qkv_bias = m.qkv_bias;
  out.tied_embeddings = !m.untied;
  out.hidden_dropout = m.hidden_dropout.value_or(0.1);
  out.attention_dropout = m.attention_dropout.value_or(0.1);
  return m.layers && m.hidden && m.heads && m.sequence ? out : gpt_config{};
}

/// Throws if the files are too small for the model, before its memory is forecast.
void require_weights_of(const gpt_config& model, const std::filesystem::path& folder) {
  std::error_code failure;
  std::uint64_t bytes = 0;
  for (std::filesystem::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure))
    if (at->path().extension() == ".safetensors" && at->is_regular_file(failure))
      bytes += at->file_size(failure);
  if (bytes > 0 && std::uint64_t(runtime::parameter_count(model)) > bytes)
    throw runtime::input_error(
        "--load-hf '{}': config.json describes {} parameters, but the files have only {} bytes; "
        "the folder is incomplete or belongs to another model",
        folder.string(),
        runtime::parameter_count(model),
        bytes);
}

std::string text_of_hub(const std::filesystem::path& folder, const std::filesystem::path& hub) try {
  return runtime::read_hub_config(folder);
} catch (const runtime::input_error& failure) {
  throw runtime::input_error("--load-hf '{}': {}", hub.string(), failure.what());
}

/// The shape of a Hugging Face model. Flags may repeat it; they may change dropout and, within the
/// model's positions, --seq-length.
gpt_config shape_from_hub(const training_flags& flags, sentences& wrong) {
  const auto& m = flags.model;
  const auto& hub = flags.job.checkpoints.load_hub;
  const auto folder = hub_or_local_folder("--load-hf", hub, runtime::hub_files::shape);
  auto out = runtime::hub_config(text_of_hub(folder, hub),
                                 fmt::format("'{}'", (folder / "config.json").string()));
  require_weights_of(out, hub);
  const auto agree = [&](const char* flag, const auto& given, const auto& there) {
    if (given && *given != there)
      wrong.push_back(fmt::format(
          "{} {} contradicts --load-hf '{}': its config.json has {}; leave the flag out",
          flag,
          *given,
          hub.string(),
          there));
  };
  const auto must_be = [&](const char* flag, bool given, bool there) {
    if (given && !there)
      wrong.push_back(fmt::format(
          "{} contradicts --load-hf '{}': its config.json has another value; leave the flag out",
          flag,
          hub.string()));
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
  must_be("--position-embedding-type",
          m.position.has_value(),
          out.position == position_of(flags)
              && (m.position == "yarn") == (out.scaling == rope_scaling::yarn));
  must_be("--use-rope-scaling", m.rope_scaling, out.scaling == rope_scaling::llama3);
  agree("--rope-scaling-factor", m.rope_scaling_factor, out.scaling_factor);
  agree("--rotary-scaling-factor", m.yarn.factor, out.scaling_factor);
  agree("--yarn-original-max-position-embeddings", m.yarn.positions, out.scaling_positions);
  agree("--yarn-beta-fast", m.yarn.fast, out.yarn_fast);
  agree("--yarn-beta-slow", m.yarn.slow, out.yarn_slow);
  agree("--yarn-correction-range-round-to-int", m.yarn.round, out.yarn_round);
  agree("--mscale", m.yarn.mscale, out.yarn_mscale);
  agree("--mscale-all-dim", m.yarn.mscale_all, out.yarn_mscale_all);
  agree("--rotary-seq-len-interpolation-factor", m.rotary_interpolation, out.rotary_interpolation);
  must_be("--no-position-embedding",
          m.no_position,
          out.position != position_embedding::learned_absolute);
  must_be("--rotary-interleaved", m.rotary_interleaved, out.rotary_interleaved);
  must_be(
      "--normalization", m.normalization.has_value(), out.normalization == normalization_of(flags));
  must_be("--apply-layernorm-1p", m.gains_less_one, out.gain_offset == 1);
  must_be("--qk-layernorm", m.qk_norm, out.qk_norm);
  agree("--window-size", m.window, out.window);
  must_be("--squared-relu", m.squared_relu, out.activation == activation_kind::squared_relu);
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

}  // namespace troupe::command

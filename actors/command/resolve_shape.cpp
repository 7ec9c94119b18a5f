#include "actors/command/hub_models.hpp"
#include "actors/command/resolve_parts.hpp"
#include "runtime/checkpoint/hub.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/model/choices.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>
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
  const auto given = [&](const char* setting) { return flags.given.contains(setting); };
  if (out.scaling == rope_scaling::llama3 && m.position != "yarn")
    out.scaling_factor = m.llama3_factor.value_or(8);
  else if (m.llama3_factor)
    wrong.push_back(fmt::format(
        "--rope-scaling-factor {} does nothing without --use-rope-scaling: add it, or leave both "
        "out",
        *m.llama3_factor));
  const bool stretched = m.yarn_factor || given("model.yarn_fast") || given("model.yarn_slow")
                         || given("model.yarn_mscale") || given("model.yarn_mscale_all")
                         || given("model.scaling_positions") || given("model.yarn_round");
  if (m.position != "yarn") {
    if (stretched)
      wrong.emplace_back(
          "--rotary-scaling-factor, --mscale and --yarn-... do nothing without "
          "--position-embedding-type yarn: add it, or leave them out");
    return;
  }
  if (out.scaling == rope_scaling::llama3)
    wrong.emplace_back(
        "--use-rope-scaling stretches as Llama 3 does, --position-embedding-type yarn as YaRN: "
        "give one");
  out.scaling = rope_scaling::yarn;
  out.scaling_factor = m.yarn_factor.value_or(1);
  if (!given("model.scaling_positions"))
    out.scaling_positions = 4096;
}

}  // namespace

gpt_config shape_from_flags(const training_flags& flags, sentences& wrong) {
  const auto& m = flags.model;
  const auto given = [&](const char* setting) { return flags.given.contains(setting); };
  auto out = flags.job.training.model;
  if (given("model.groups") && !m.grouped_queries)
    wrong.push_back(fmt::format(
        "--num-query-groups {} does nothing without --group-query-attention: add it, or leave "
        "both out",
        out.groups));
  if (!m.grouped_queries)
    out.groups = out.heads;
  else if (!given("model.groups"))
    out.groups = 1;
  if (given("model.hidden") && given("model.heads") && !given("model.head_size")) {
    if (out.hidden % out.heads != 0)
      wrong.push_back(fmt::format(
          "--hidden-size {} is not a multiple of --num-attention-heads {}: give the nearest "
          "multiple, --hidden-size {}, or the size of a head by --kv-channels",
          out.hidden,
          out.heads,
          std::max<std::int64_t>(1, (out.hidden + out.heads / 2) / out.heads) * out.heads));
    out.head_size = std::max<std::int64_t>(out.hidden / out.heads, 1);
  }
  if (given("model.activation=swiglu") && given("model.activation=squared_relu"))
    wrong.emplace_back("--swiglu and --squared-relu are both activations: give one");
  // Megatron-LM's fused kernel has the tanh formula and adds a bias, so it is off without biases.
  if (!out.linear_bias && out.activation == activation_kind::gelu_tanh)
    out.activation = activation_kind::gelu_erf;
  if (!given("model.ffn"))
    out.ffn = usual_ffn(out);
  if (!given("model.positions"))
    out.positions = out.sequence;
  out.position = position_of(flags);
  resolve_rotary(flags, out, wrong);
  out.normalization = normalization_of(flags);
  return given("model.layers") && given("model.hidden") && given("model.heads")
                 && given("model.sequence")
             ? out
             : gpt_config{};
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

/// True for members that the flags may change, and for those that are compared in other words.
bool is_free(std::string_view member) {
  constexpr std::string_view all[] = {"sequence",
                                      "vocabulary",
                                      "hidden_dropout",
                                      "attention_dropout",
                                      "init_std",
                                      "gain_offset",
                                      "position",
                                      "normalization",
                                      "scaling_factor"};
  return std::ranges::find(all, member) != std::end(all);
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
  const auto contradicts = [&](const std::string& flag, const auto& given, const auto& there) {
    wrong.push_back(
        fmt::format("{} {} contradicts --load-hf '{}': its config.json has {}; leave the flag out",
                    flag,
                    given,
                    hub.string(),
                    there));
  };
  const auto must_be = [&](const std::string& flag, bool given, bool there) {
    if (given && !there)
      wrong.push_back(fmt::format(
          "{} contradicts --load-hf '{}': its config.json has another value; leave the flag out",
          flag,
          hub.string()));
  };
  const auto& said = flags.job.training.model;
  const auto values = runtime::json_value(to_json(out));
  runtime::for_each_field<gpt_config>([&](const auto& row) {
    const auto &here = said.*row.member, &there = out.*row.member;
    const auto setting = fmt::format("model.{}", row.key);
    if (!flags.given.contains(setting) || is_free(row.key))
      return;
    // Flags that choose one value each: "model.activation=swiglu", "model.linear_bias=false".
    auto given = flags.given.lower_bound(setting + "=");
    if (given != flags.given.end() && given->starts_with(setting + "=")) {
      const auto& value = values.at(row.key);
      const auto right
          = setting + "="
            + (value.is_string() ? value.template get<std::string>() : runtime::json_text(value));
      for (; given != flags.given.end() && given->starts_with(setting + "="); ++given)
        must_be("`" + *given + "`", true, *given == right);
      return;
    }
    using member = std::remove_cvref_t<decltype(here)>;
    if (here == there)
      return;
    if constexpr (std::is_arithmetic_v<member> && !std::is_same_v<member, bool>)
      contradicts("`" + setting + "`", here, there);
    else
      must_be("`" + setting + "`", true, false);
  });
  must_be("--apply-layernorm-1p", said.gain_offset == 1, out.gain_offset == 1);
  must_be("--group-query-attention", m.grouped_queries, out.groups < out.heads);
  must_be("--position-embedding-type",
          m.position.has_value(),
          out.position == position_of(flags)
              && (m.position == "yarn") == (out.scaling == rope_scaling::yarn));
  if (m.llama3_factor && *m.llama3_factor != out.scaling_factor)
    contradicts("--rope-scaling-factor", *m.llama3_factor, out.scaling_factor);
  if (m.yarn_factor && *m.yarn_factor != out.scaling_factor)
    contradicts("--rotary-scaling-factor", *m.yarn_factor, out.scaling_factor);
  must_be("--no-position-embedding",
          m.no_position,
          out.position != position_embedding::learned_absolute);
  must_be(
      "--normalization", m.normalization.has_value(), out.normalization == normalization_of(flags));
  if (flags.given.contains("model.sequence"))
    out.sequence = said.sequence;
  if (flags.given.contains("model.hidden_dropout"))
    out.hidden_dropout = said.hidden_dropout;
  if (flags.given.contains("model.attention_dropout"))
    out.attention_dropout = said.attention_dropout;
  return out;
}

}  // namespace troupe::command

#include "runtime/family/gpt/gpt_resolve.hpp"

#include "runtime/core/json_text.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>

namespace troupe::runtime {
namespace {

using sentences = std::vector<std::string>;

position_embedding position_of(const gpt_asked& asked) {
  const auto name = asked.position.value_or("learned_absolute");
  if (name == "rope" || name == "yarn")
    return position_embedding::rope;
  return name == "none" || asked.no_position ? position_embedding::none
                                             : position_embedding::learned_absolute;
}

normalization_kind normalization_of(const gpt_asked& asked) {
  return asked.normalization == "RMSNorm" ? normalization_kind::rms : normalization_kind::layer;
}

/// Megatron-LM gives a gated layer as many parameters as an ungated one of width 4 C.
std::int64_t usual_ffn(const gpt_config& x) {
  if (x.activation != activation_kind::swiglu)
    return 4 * x.hidden;
  return std::int64_t(double(4 * x.hidden) * 2 / 3) / 64 * 64;
}

void resolve_rotary(const gpt_asked& asked,
                    const given_settings& given,
                    gpt_config& out,
                    sentences& wrong) {
  if (out.scaling == rope_scaling::llama3 && asked.position != "yarn")
    out.scaling_factor = asked.llama3_factor.value_or(8);
  else if (asked.llama3_factor)
    wrong.push_back(fmt::format(
        "`model.scaling_factor` {} does nothing without `model.scaling=llama3`: add it, or leave "
        "both out",
        *asked.llama3_factor));
  const bool stretched
      = asked.yarn_factor || given.contains("model.yarn_fast") || given.contains("model.yarn_slow")
        || given.contains("model.yarn_mscale") || given.contains("model.yarn_mscale_all")
        || given.contains("model.scaling_positions") || given.contains("model.yarn_round");
  if (asked.position != "yarn") {
    if (stretched)
      wrong.emplace_back(
          "`model.yarn_factor`, `model.yarn_mscale` and the other settings of YaRN do nothing "
          "without `model.position` yarn: add it, or leave them out");
    return;
  }
  if (out.scaling == rope_scaling::llama3)
    wrong.emplace_back(
        "`model.scaling=llama3` stretches as Llama 3 does, `model.position` yarn as YaRN: give "
        "one");
  out.scaling = rope_scaling::yarn;
  out.scaling_factor = asked.yarn_factor.value_or(1);
  if (!given.contains("model.scaling_positions"))
    out.scaling_positions = 4096;
}

/// True for members that may differ from the Hub's, and for those that are compared in other words.
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

/// The sentences about settings that a Hub folder contradicts.
class contradictions {
 public:
  contradictions(const std::string& hub, sentences& wrong) : hub_(hub), wrong_(wrong) {}

  template <class Value>
  void add(const std::string& setting, const Value& given, const Value& there) {
    wrong_.push_back(fmt::format(
        "`{}` {} contradicts `checkpoints.load_hub` '{}': its config.json has {}; leave it out",
        setting,
        given,
        hub_,
        there));
  }
  void require(const std::string& setting, bool given, bool there) {
    if (given && !there)
      wrong_.push_back(
          fmt::format("`{}` contradicts `checkpoints.load_hub` '{}': its config.json has another "
                      "value; leave it out",
                      setting,
                      hub_));
  }

 private:
  const std::string& hub_;
  sentences& wrong_;
};

/// Compares the members that have the words of their rows.
void compare_members(const gpt_config& said,
                     const gpt_config& there,
                     const given_settings& all,
                     contradictions& wrong) {
  const auto values = json_value(to_json(there));
  for_each_field<gpt_config>([&](const auto& row) {
    const auto &here = said.*row.member, &its = there.*row.member;
    const auto setting = fmt::format("model.{}", row.key);
    if (!all.contains(setting) || is_free(row.key))
      return;
    // Settings that choose one value each: "model.activation=swiglu", "model.linear_bias=false".
    auto given = all.lower_bound(setting + "=");
    if (given != all.end() && given->starts_with(setting + "=")) {
      const auto& value = values.at(row.key);
      const auto right
          = setting + "="
            + (value.is_string() ? value.template get<std::string>() : json_text(value));
      for (; given != all.end() && given->starts_with(setting + "="); ++given)
        wrong.require(*given, true, *given == right);
      return;
    }
    using member = std::remove_cvref_t<decltype(here)>;
    if (here == its)
      return;
    if constexpr (std::is_arithmetic_v<member> && !std::is_same_v<member, bool>)
      wrong.add(setting, here, its);
    else
      wrong.require(setting, true, false);
  });
}

template <class T>
void decide(std::optional<T>& asked, const T& value) {
  if (!asked)
    asked = value;
}

/// Decides a setting that was not given.
template <class T>
void decide(given_settings& given, const char* setting, T& to, const T& value) {
  if (given.insert(setting).second)
    to = value;
}

}  // namespace

std::optional<gpt_config> resolve(const gpt_asked& asked,
                                  const given_settings& given,
                                  sentences& wrong) {
  auto out = asked.config;
  if (given.contains("model.groups") && !asked.grouped_queries)
    wrong.push_back(
        fmt::format("`model.groups` {} does nothing without `model.grouped_queries`: add it, or "
                    "leave both out",
                    out.groups));
  if (!asked.grouped_queries)
    out.groups = out.heads;
  else if (!given.contains("model.groups"))
    out.groups = 1;
  if (given.contains("model.hidden") && given.contains("model.heads")
      && !given.contains("model.head_size")) {
    if (out.hidden % out.heads != 0)
      wrong.push_back(fmt::format(
          "`model.hidden` {} is not a multiple of `model.heads` {}: give the nearest multiple, "
          "`model.hidden` {}, or the size of a head by `model.head_size`",
          out.hidden,
          out.heads,
          std::max<std::int64_t>(1, (out.hidden + out.heads / 2) / out.heads) * out.heads));
    out.head_size = std::max<std::int64_t>(out.hidden / out.heads, 1);
  }
  if (given.contains("model.activation=swiglu") && given.contains("model.activation=squared_relu"))
    wrong.emplace_back(
        "`model.activation=swiglu` and `model.activation=squared_relu` are both activations: give "
        "one");
  // Megatron-LM's fused kernel has the tanh formula and adds a bias, so it is off without biases.
  if (!out.linear_bias && out.activation == activation_kind::gelu_tanh)
    out.activation = activation_kind::gelu_erf;
  if (!given.contains("model.ffn"))
    out.ffn = usual_ffn(out);
  if (!given.contains("model.positions"))
    out.positions = out.sequence;
  out.position = position_of(asked);
  resolve_rotary(asked, given, out, wrong);
  out.normalization = normalization_of(asked);
  if (given.contains("model.layers") && given.contains("model.hidden")
      && given.contains("model.heads") && given.contains("model.sequence"))
    return out;
  return std::nullopt;
}

gpt_config resolve_hub(const gpt_config& there,
                       const gpt_asked& asked,
                       const given_settings& given,
                       const std::string& hub,
                       sentences& wrong) {
  auto out = there;
  const auto& said = asked.config;
  contradictions found(hub, wrong);
  compare_members(said, there, given, found);
  found.require("model.gain_offset", said.gain_offset == 1, there.gain_offset == 1);
  found.require("model.grouped_queries", asked.grouped_queries, there.groups < there.heads);
  found.require("model.position",
                asked.position.has_value(),
                there.position == position_of(asked)
                    && (asked.position == "yarn") == (there.scaling == rope_scaling::yarn));
  if (asked.llama3_factor && *asked.llama3_factor != there.scaling_factor)
    found.add("model.scaling_factor", *asked.llama3_factor, there.scaling_factor);
  if (asked.yarn_factor && *asked.yarn_factor != there.scaling_factor)
    found.add("model.yarn_factor", *asked.yarn_factor, there.scaling_factor);
  found.require("model.position=none",
                asked.no_position,
                there.position != position_embedding::learned_absolute);
  found.require("model.normalization",
                asked.normalization.has_value(),
                there.normalization == normalization_of(asked));
  if (given.contains("model.sequence"))
    out.sequence = said.sequence;
  if (given.contains("model.hidden_dropout"))
    out.hidden_dropout = said.hidden_dropout;
  if (given.contains("model.attention_dropout"))
    out.attention_dropout = said.attention_dropout;
  out.init_std = said.init_std;
  return out;
}

void write_back(const gpt_config& config, gpt_asked& asked, given_settings& given, bool from_hub) {
  auto& said = asked.config;
  decide(given, "model.hidden_dropout", said.hidden_dropout, config.hidden_dropout);
  decide(given, "model.attention_dropout", said.attention_dropout, config.attention_dropout);
  if (from_hub)
    return;  // the rest of the shape is in the Hugging Face folder
  decide(given, "model.ffn", said.ffn, config.ffn);
  decide(given, "model.head_size", said.head_size, config.head_size);
  decide(given, "model.positions", said.positions, config.positions);
  decide(given, "model.norm_epsilon", said.norm_epsilon, config.norm_epsilon);
  decide(asked.normalization, std::string("LayerNorm"));
  if (asked.grouped_queries)
    decide(given, "model.groups", said.groups, config.groups);
  if (!asked.no_position)
    decide(asked.position, std::string("learned_absolute"));
  if (config.position == position_embedding::rope) {
    decide(given, "model.rotary_base", said.rotary_base, config.rotary_base);
    decide(given, "model.rotary_percent", said.rotary_percent, config.rotary_percent);
  }
}

}  // namespace troupe::runtime

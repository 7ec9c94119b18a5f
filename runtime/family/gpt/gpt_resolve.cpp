#include "runtime/family/gpt/gpt_resolve.hpp"

#include "runtime/core/json_text.hpp"
#include "runtime/family/hub_contradictions.hpp"
#include "runtime/family/size_rules.hpp"

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

/// The sentence about a given setting that has an effect only with another one.
void refuse_alone(const given_settings& given,
                  const char* setting,
                  const char* with,
                  sentences& wrong) {
  if (given.contains(setting))
    wrong.push_back(
        fmt::format("`{}` does nothing without `{}`: add it, or leave both out", setting, with));
}

void resolve_latents(const gpt_asked& asked,
                     const given_settings& given,
                     gpt_config& out,
                     sentences& wrong) {
  if (!asked.latent_attention) {
    if (const auto alone = given_below(given, "model.latent."); !alone.empty())
      refuse_alone(given, alone.c_str(), "model.latent_attention", wrong);
    out.latent = {};
    return;
  }
  const auto usual = [&given](const char* setting, std::int64_t& to, std::int64_t value) {
    if (!given.contains(setting))
      to = value;
  };
  usual("model.latent.kv_rank", out.latent.kv_rank, 32);
  usual("model.latent.own_size", out.latent.own_size, 128);
  usual("model.latent.rotated", out.latent.rotated, 64);
  usual("model.latent.value_size", out.latent.value_size, 128);
  usual("model.head_size", out.head_size, out.latent.own_size + out.latent.rotated);
  out.rotary_interleaved = true;  // as Megatron-LM's latent attention
}

void refuse_idle(const given_settings& given, const experts_config& x, sentences& wrong) {
  if (!x.expert_bias)
    refuse_alone(given, "model.experts.bias_rate", "model.experts.expert_bias", wrong);
  if (!x.balances_by("quantile_balancing") && given.contains("model.experts.quantile_decay"))
    wrong.emplace_back(
        "`model.experts.quantile_decay` does nothing without `model.experts.balance` "
        "quantile_balancing: add it, or leave both out");
  if (x.groups == 0)
    refuse_alone(given, "model.experts.group_score", "model.experts.groups", wrong);
  if (x.capacity == 0)
    refuse_alone(given, "model.experts.drops", "model.experts.capacity", wrong);
}

void resolve_experts(const given_settings& given, gpt_config& out, sentences& wrong) {
  auto& x = out.experts;
  if (!given.contains("model.experts.number")) {
    if (const auto alone = given_below(given, "model.experts."); !alone.empty())
      refuse_alone(given, alone.c_str(), "model.experts.number", wrong);
    x = {};
    return;
  }
  if (!given.contains("model.experts.ffn"))
    x.ffn = out.ffn;
  if (!given.contains("model.experts.balance_weights"))
    x.balance_weights.assign(x.balance.size(), 0);
  if (x.balances_by("sinkhorn") && !given.contains("model.experts.score")) {  // as Megatron-LM
    x.score = x.chosen > 1 ? "softmax" : "sigmoid";
    x.pre_softmax = x.chosen > 1;
  }
  refuse_idle(given, x, wrong);
}

/// True for members beside those of training that may differ from the Hub's, and for those that are
/// compared in other words. `member` has its path: "experts.jitter".
bool is_free(std::string_view member) {
  constexpr std::string_view all[] = {"gain_offset",
                                      "position",
                                      "normalization",
                                      "scaling_factor",
                                      "experts.layers",
                                      "experts.balance",
                                      "experts.balance_weights",
                                      "experts.z_weight",
                                      "experts.jitter",
                                      "experts.bias_rate",
                                      "experts.capacity",
                                      "experts.pads",
                                      "experts.drops",
                                      "experts.forced_balance"};
  return std::ranges::find(all, member) != std::end(all);
}

/// Takes the settings of experts that may differ from the Hub's.
void take_balance(const experts_config& said,
                  const given_settings& given,
                  experts_config& to,
                  sentences& wrong) {
  const auto take = [&](const char* setting, auto member) {
    if (given.contains(setting))
      to.*member = said.*member;
  };
  using x = experts_config;
  take("model.experts.balance", &x::balance);
  if (given.contains("model.experts.balance"))
    to.balance_weights.assign(to.balance.size(), 0);
  take("model.experts.balance_weights", &x::balance_weights);
  take("model.experts.z_weight", &x::z_weight);
  take("model.experts.jitter", &x::jitter);
  take("model.experts.bias_rate", &x::bias_rate);
  take("model.experts.capacity", &x::capacity);
  take("model.experts.pads", &x::pads);
  take("model.experts.drops", &x::drops);
  take("model.experts.forced_balance", &x::forced_balance);
  if (to.balances_by("quantile_balancing"))
    wrong.emplace_back(
        "`model.experts.balance` quantile_balancing has a bias of each expert, which no model of "
        "the Hub has: give aux_loss, seq_aux_loss, sinkhorn or none");
  refuse_idle(given, to, wrong);
}

template <class T>
void decide(std::optional<T>& asked, const T& value) {
  if (!asked)
    asked = value;
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
      && !given.contains("model.head_size") && !asked.latent_attention) {
    require_multiple(out.hidden, out.heads, ", or the size of a head by `model.head_size`", wrong);
    out.head_size = std::max<std::int64_t>(out.hidden / out.heads, 1);
  }
  if (are_several(given, {"model.activation=swiglu", "model.activation=squared_relu"}))
    wrong.emplace_back(
        "`model.activation=swiglu` and `model.activation=squared_relu` are both activations: give "
        "one");
  // Megatron-LM's fused kernel has the tanh formula and adds a bias, so it is off without biases.
  if (!out.linear_bias && out.activation == activation_kind::gelu_tanh)
    out.activation = activation_kind::gelu_erf;
  if (!given.contains("model.ffn"))
    out.ffn = out.gated ? gated_ffn(out.hidden) : 4 * out.hidden;
  if (!given.contains("model.positions"))
    out.positions = out.sequence;
  out.position = position_of(asked);
  resolve_rotary(asked, given, out, wrong);
  out.normalization = normalization_of(asked);
  resolve_latents(asked, given, out, wrong);
  resolve_experts(given, out, wrong);
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
  compare_members(said, there, json_value(to_json(there)), "", given, is_free, found);
  found.require("model.latent_attention", asked.latent_attention, there.has_latents());
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
  take_training(given, said, out);
  out.init_std = said.init_std;
  if (there.has_experts() && given.contains("model.experts.layers")
      && layers_with_experts(said.experts.layers, there.layers) != there.expert_layers())
    found.add("model.experts.layers", said.experts.layers, there.experts.layers);
  if (there.has_experts())
    take_balance(said.experts, given, out.experts, wrong);
  else if (const auto alone = given_below(given, "model.experts."); !alone.empty())
    found.require(alone, is_free(std::string_view(alone).substr(sizeof "model." - 1)), false);
  return out;
}

void write_back(const gpt_config& config, gpt_asked& asked, given_settings& given, bool from_hub) {
  auto& said = asked.config;
  decide_members(given, "model.", said, config, {"hidden_dropout", "attention_dropout"});
  if (from_hub)
    return;  // the rest of the shape is in the Hugging Face folder
  decide_members(given, "model.", said, config, {"ffn", "head_size", "positions", "norm_epsilon"});
  if (config.has_experts())
    decide_members(given, "model.experts.", said.experts, config.experts, {"ffn"});
  if (config.has_latents())
    decide_members(given,
                   "model.latent.",
                   said.latent,
                   config.latent,
                   {"kv_rank", "own_size", "rotated", "value_size"});
  decide(asked.normalization, std::string("LayerNorm"));
  if (asked.grouped_queries)
    decide_members(given, "model.", said, config, {"groups"});
  if (!asked.no_position)
    decide(asked.position, std::string("learned_absolute"));
  if (config.position == position_embedding::rope)
    decide_members(given, "model.", said, config, {"rotary_base", "rotary_percent"});
}

}  // namespace troupe::runtime

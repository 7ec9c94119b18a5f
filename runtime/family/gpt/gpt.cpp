#include "runtime/family/gpt/gpt.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/typed_family.hpp"
#include "runtime/model/layers/experts.hpp"
#include "runtime/model/layers/latent_attention.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::runtime {
namespace {

/// Initial deviation of the products that add to the residual stream, scaled as in Megatron-LM.
double output_deviation(const gpt_config& c) {
  return c.init_std / std::sqrt(2.0 * double(c.layers));
}

norm_options norm_of(const gpt_config& c) {
  return {.kind = c.normalization,
          .epsilon = float(c.norm_epsilon),
          .gain_offset = float(c.gain_offset)};
}

attention_spec attention_of(const gpt_config& c, std::int64_t rotated) {
  const auto concentration
      = c.position == position_embedding::rope ? rotary_concentration(rotary_of(c)) : 1.0;
  attention_spec out{.hidden = c.hidden,
                     .heads = c.heads,
                     .groups = c.groups,
                     .head_size = c.head_size,
                     .scale = concentration * concentration / std::sqrt(double(c.head_size)),
                     .window = std::int32_t(c.window),
                     .rotated = rotated,
                     .rotary_interleaved = c.rotary_interleaved,
                     .qkv_bias = c.linear_bias || c.qkv_bias,
                     .output_bias = c.linear_bias,
                     .dropout = c.attention_dropout,
                     .init_std = c.init_std,
                     .output_init_std = output_deviation(c)};
  if (c.qk_norm)
    out.head_norm = norm_of(c);
  out.norm_rows = c.qk_norm_rows;
  return out;
}

feed_forward_spec feed_forward_of(const gpt_config& c) {
  return {.hidden = c.hidden,
          .ffn = c.ffn,
          .activation = c.activation,
          .gated = c.gated,
          .bias = c.linear_bias,
          .init_std = c.init_std,
          .output_init_std = output_deviation(c)};
}

latent_attention_spec latent_attention_of(const gpt_config& c) {
  const auto rotary = rotary_of(c);
  auto norm = norm_of(c);
  if (c.latent.norm_epsilon > 0)
    norm.epsilon = float(c.latent.norm_epsilon);
  return {.hidden = c.hidden,
          .heads = c.heads,
          .q_rank = c.latent.q_rank,
          .kv_rank = c.latent.kv_rank,
          .own_size = c.latent.own_size,
          .rotated = c.latent.rotated,
          .value_size = c.latent.value_size,
          .scale = latent_concentration(rotary) / std::sqrt(double(c.head_size)),
          .rotary_magnitude = rotary_concentration(rotary),
          .rotary_interleaved = c.rotary_interleaved,
          .norm = norm,
          .dropout = c.attention_dropout,
          .init_std = c.init_std,
          .output_init_std = output_deviation(c)};
}

kernels::route_score score_of(const experts_config& x) {
  using enum kernels::route_score;
  if (x.score == "softmax")
    return x.pre_softmax ? softmax : softmax_of_chosen;
  return x.score == "sigmoid" ? sigmoid : sqrt_softplus;
}

balance_choice choice_of(const experts_config& x) {
  using enum balance_choice;
  return x.forced_balance                      ? forced
         : x.expert_bias                       ? bias
         : x.balances_by("quantile_balancing") ? quantile
         : x.balances_by("sinkhorn")           ? sinkhorn
                                               : balance_choice::none;
}

balanced_rows rows_of_loss(std::string_view balance) {
  return balance == "aux_loss"       ? balanced_rows::microbatch
         : balance == "seq_aux_loss" ? balanced_rows::sequence
                                     : balanced_rows::step;
}

router_spec router_of(const experts_config& x) {
  const bool grouped = x.groups > 0;
  const auto choice = choice_of(x);
  router_spec out{
      .experts = x.number,
      .chosen = x.chosen,
      .score = score_of(x),
      .groups = grouped ? x.groups : 1,
      .group_topk = grouped ? x.group_topk : 1,
      .group_best = grouped && x.group_score == "sum" ? x.chosen / x.group_topk : 1,
      .scale = x.scale,
      .choice = choice,
      .bias_rate = choice == balance_choice::quantile ? 1 - x.quantile_decay : x.bias_rate,
      .jitter = x.jitter,
      .z_weight = x.z_weight,
      .capacity = x.capacity,
      .pads = x.pads,
      .drops = x.drops == "probs" ? drop_policy::probability : drop_policy::position};
  for (std::size_t i = 0; i < x.balance_weights.size(); ++i)
    if (x.balance_weights[i] > 0)
      out.losses.push_back({rows_of_loss(x.balance.at(i)), x.balance_weights[i]});
  return out;
}

/// `layers`: the number of layers with experts.
experts_spec experts_of(const gpt_config& c, std::int64_t layers) {
  return {.hidden = c.hidden,
          .ffn = c.experts.ffn,
          .latent = c.experts.latent,
          .shared_ffn = c.experts.shared_ffn,
          .shared_gate = c.experts.shared_gate,
          .activation = c.activation,
          .gated = c.gated,
          .router = router_of(c.experts),
          .layers = layers,
          .init_std = c.init_std,
          .output_init_std = output_deviation(c)};
}

/// `rotated`: channels of a head. `with_experts`: the number of layers with experts, if this is one
/// of them; else 0.
layer_spec layer_of(const gpt_config& c,
                    const extension& own,
                    std::int64_t rotated,
                    std::int64_t with_experts) {
  layer_spec out;
  residual_sublayer attention{.name = "self_attention",
                              .norm_before = norm_spec{"input_layernorm", norm_of(c)},
                              .body = c.has_latents() ? module_spec(latent_attention_of(c))
                                                      : module_spec(attention_of(c, rotated)),
                              .dropout = c.hidden_dropout};
  out.sublayers.emplace_back(std::move(attention));
  const auto feed_forward = feed_forward_of(c);
  if (own.feed_forward)
    out.sublayers.emplace_back(own_sublayer{
        "mlp",
        [build = own.feed_forward, feed_forward](module_builder& to) { build(to, feed_forward); },
        {},
        own.losses,
        own.tied_to,
        // counted as the layer that it replaces
        [feed_forward](std::int64_t T) { return forward_flops(feed_forward, T); }});
  else
    out.sublayers.emplace_back(
        residual_sublayer{.name = "mlp",
                          .norm_before = norm_spec{"pre_mlp_layernorm", norm_of(c)},
                          .body = with_experts > 0 ? module_spec(experts_of(c, with_experts))
                                                   : module_spec(feed_forward),
                          .dropout = c.hidden_dropout});
  return out;
}

}  // namespace

rotary_spec rotary_of(const gpt_config& c) {
  return {.head_size = c.has_latents() ? c.latent.rotated : c.head_size,
          .base = c.rotary_base,
          .percent = c.rotary_percent,
          .interpolation = c.rotary_interpolation,
          .scaling = c.scaling,
          .factor = c.scaling_factor,
          .positions = c.scaling_positions,
          .llama3_low = c.llama3_low,
          .llama3_high = c.llama3_high,
          .yarn_fast = c.yarn_fast,
          .yarn_slow = c.yarn_slow,
          .yarn_mscale = c.yarn_mscale,
          .yarn_mscale_all = c.yarn_mscale_all,
          .yarn_round = c.yarn_round};
}

unit_letters gpt_letters(std::int64_t layers) {
  return {{'E', 1}, {'t', std::max<std::int64_t>(layers, 0), true}, {'L', 1}};
}

model_spec gpt_spec(const gpt_config& c, const extension& own) {
  if (own.name.empty() && (own.feed_forward || own.loss || !own.losses.empty()))
    throw input_error(
        "an extension of the model needs a name, which checkpoints record; set extension::name");
  const bool learned = c.position == position_embedding::learned_absolute;
  const auto embedding = embedding_of(c, learned ? c.positions : 0);
  head_spec head{.norm = {"decoder.final_layernorm", norm_of(c)},
                 .hidden = c.hidden,
                 .vocabulary = c.vocabulary,
                 .padded_vocabulary = c.padded_vocabulary,
                 .tied_to = c.tied_embeddings ? "embedding.word_embeddings.weight" : "",
                 .init_std = c.init_std};
  if (own.loss)
    head.loss = own.loss;
  if (!own.losses.empty() && !own.feed_forward)
    throw input_error(
        "extension '{}' has losses, but no feed-forward layer that writes them; set "
        "extension::feed_forward",
        own.name);
  if (own.feed_forward && c.has_experts())
    throw input_error(
        "extension '{}' has feed-forward layers, but the model has experts in their place; leave "
        "out `model.experts.number`",
        own.name);
  auto losses = own.losses;
  losses.push_back(head.reported);
  if (const auto wrong = wrong_loss(losses); !wrong.empty())
    throw input_error("extension '{}': {}", own.name, wrong);
  model_spec out{.sequence = c.sequence, .streams = {{"decoder", c.hidden}}};
  if (c.position == position_embedding::rope)
    out.rotary_frequency = rotary_frequencies(rotary_of(c));
  const auto rotated = std::int64_t(2 * out.rotary_frequency.size());
  const auto has_experts = c.expert_layers();
  const auto with_experts = std::count(has_experts.begin(), has_experts.end(), true);
  const auto dense = layer_of(c, own, rotated, 0);
  const auto sparse = with_experts > 0 ? layer_of(c, own, rotated, with_experts) : dense;
  out.add('E', "embedding", "embedding", "decoder", embedding);
  for (std::int64_t l = 0; l < c.layers; ++l) {
    const auto name = "decoder.layers." + std::to_string(l);
    const bool is_sparse = !has_experts.empty() && has_experts.at(std::size_t(l));
    out.add('t', name, name, "decoder", is_sparse ? sparse : dense, l);
  }
  out.add('L', "head", "", "decoder", std::move(head));
  return out;
}

}  // namespace troupe::runtime

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/family/gpt/gpt_hub.hpp"
#include "runtime/family/hub_fields.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace troupe::runtime {
namespace {

using nlohmann::ordered_json;

bool is_llama_like(const gpt_config& x) {
  return x.position == position_embedding::rope;
}

/// The model_type of a model with experts.
std::string_view kind_of_experts(const gpt_config& x) {
  if (x.has_latents())
    return x.experts.score == "softmax" ? "deepseek_v2" : "deepseek_v3";
  return x.experts.shared_ffn > 0 ? "qwen2_moe"
         : x.qk_norm_rows         ? "olmoe"
         : x.qk_norm              ? "qwen3_moe"
                                  : "mixtral";
}

std::string_view titles_of(const gpt_config& x) {
  if (!is_llama_like(x))
    return "GPT-2";
  if (!x.has_experts())
    return "Llama, Mistral or Qwen";
  const auto kind = kind_of_experts(x);
  return kind == "mixtral"       ? "Mixtral"
         : kind == "qwen2_moe"   ? "Qwen2-MoE"
         : kind == "qwen3_moe"   ? "Qwen3-MoE"
         : kind == "olmoe"       ? "OLMoE"
         : kind == "deepseek_v2" ? "DeepSeek-V2"
                                 : "DeepSeek-V3";
}

/// Layers without experts at the beginning; nothing if others have none.
std::optional<std::int64_t> dense_at_first(const std::vector<bool>& with) {
  const auto first = std::find(with.begin(), with.end(), true);
  if (std::find(first, with.end(), false) != with.end())
    return {};
  return first - with.begin();
}

template <class Must>
void experts_must(const Must& must, const gpt_config& x) {
  const auto& y = x.experts;
  const auto kind = kind_of_experts(x);
  const bool latent = x.has_latents(), qwen = kind.starts_with("qwen");
  const auto dense = dense_at_first(x.expert_layers());
  must(!x.linear_bias, "`model.linear_bias=false`");
  must(kind == "mixtral" || x.window < 0, "no `model.window`");
  must(y.latent == 0, "no `model.experts.latent`");
  must(!y.balances_by("quantile_balancing"), "no quantile_balancing in `model.experts.balance`");
  must(!y.forced_balance, "no `model.experts.forced_balance`");
  must(y.shared_gate == (kind == "qwen2_moe"),
       "`model.experts.shared_gate` exactly if a model without latent attention has "
       "`model.experts.shared_ffn`");
  if (kind == "deepseek_v3") {
    must(y.score == "sigmoid", "`model.experts.score` sigmoid");
    must(y.expert_bias, "`model.experts.expert_bias`");
    must(y.chosen > 1, "`model.experts.chosen` above 1");
    must(y.groups == 0 || (y.group_score == "sum" && y.chosen / y.group_topk == 2),
         "`model.experts.group_topk` half of `model.experts.chosen`, and "
         "`model.experts.group_score` "
         "sum");
  } else {
    must(y.score == "softmax", "`model.experts.score` softmax");
    must(!y.expert_bias, "no `model.experts.expert_bias`");
    must(kind != "deepseek_v2" || y.pre_softmax, "`model.experts.pre_softmax`");
    must(kind != "deepseek_v2" || y.groups == 0 || y.group_score == "max",
         "`model.experts.group_score` max");
    must(x.rotary_interleaved == latent, "`model.rotary_interleaved` only with latent attention");
  }
  if (latent) {
    must((x.latent.norm_epsilon > 0 ? x.latent.norm_epsilon : x.norm_epsilon) == 1e-6,
         "`model.latent.norm_epsilon` 1e-6");
    must(dense.has_value(), "layers without experts only before all others");
    must(y.shared_ffn > 0 && y.shared_ffn % y.ffn == 0,
         "`model.experts.shared_ffn` a multiple of `model.experts.ffn`");
    must(kind == "deepseek_v3" || x.hidden % x.heads == 0,
         "`model.hidden` a multiple of `model.heads`");
    return;
  }
  must(y.scale == 1 && y.groups == 0,
       "no `model.experts.scale` and `model.experts.groups` without latent attention");
  must(qwen || dense == 0, "experts in all layers");
  must(kind != "olmoe" || x.head_size * x.heads == x.hidden,
       "`model.head_size` hidden size / heads with `model.qk_norm_rows`");
  must(kind != "mixtral" || !y.pre_softmax, "no `model.experts.pre_softmax`");
  must(kind == "qwen2_moe" || !x.qkv_bias, "no `model.qkv_bias`");
  must(kind != "qwen2_moe" || !x.qk_norm, "no `model.qk_norm`");
}

template <class Must>
void config_must(const Must& must, const gpt_config& x) {
  if (is_llama_like(x)) {
    must(x.normalization == kernels::normalization::rms, "`model.normalization` RMSNorm");
    must(x.activation == kernels::activation::silu && x.gated, "`model.activation=swiglu`");
    must(x.rotary_percent == 1, "`model.rotary_percent` 1");
    must(x.scaling == rope_scaling::none || x.rotary_interpolation == 1,
         "one way of stretching positions");
    must((x.yarn_mscale == 1 && x.yarn_mscale_all == 0)
             || (x.yarn_mscale != 0 && x.yarn_mscale_all != 0),
         "YaRN's mscale and mscale-all-dim both given or neither");
    must(!x.qkv_bias || x.linear_bias || x.head_size * x.heads == x.hidden,
         "`model.head_size` hidden size / heads with `model.qkv_bias`");
    if (x.has_experts()) {
      experts_must(must, x);
      return;
    }
    must(!x.qk_norm_rows, "`model.experts.number` with `model.qk_norm_rows`");
    must(!x.has_latents(), "`model.experts.number` with `model.latent_attention`");
    must(!x.rotary_interleaved, "no `model.rotary_interleaved`");
    must(int(x.qk_norm) + int(x.qkv_bias && !x.linear_bias) + int(x.window >= 0) <= 1,
         "only one of `model.qk_norm`, `model.qkv_bias` and `model.window`");
    must(!x.linear_bias || (!x.qk_norm && x.window < 0),
         "`model.linear_bias=false` with `model.qk_norm` or `model.window`");
    return;
  }
  must(x.position == position_embedding::learned_absolute,
       "`model.position` learned_absolute or rope");
  must(x.normalization == kernels::normalization::layer, "`model.normalization` LayerNorm");
  must(!x.gated
           && (x.activation == kernels::activation::gelu_tanh
               || x.activation == kernels::activation::gelu_erf),
       "GELU");
  must(x.groups == x.heads, "no `model.grouped_queries`");
  must(x.head_size * x.heads == x.hidden, "`model.head_size` hidden size / heads");
  must(x.linear_bias, "no `model.linear_bias=false`");
  must(!x.qk_norm && !x.qk_norm_rows, "no `model.qk_norm`");
  must(x.window < 0, "no `model.window`");
  must(!x.has_experts(), "no `model.experts.number`");
  must(!x.has_latents(), "no `model.latent_attention`");
}

/// Throws input_error for properties that no kind can express.
void require_sayable(const gpt_config& x) {
  hub_rules rules;
  config_must([&rules](bool holds, const char* rule) { rules.must(holds, rule); }, x);
  rules.require(fmt::format(
      "{} positions are exported as {}", is_llama_like(x) ? "Rotary" : "These", titles_of(x)));
}

ordered_json scaling_json(const gpt_config& x) {
  if (x.rotary_interpolation != 1)
    return {{"rope_type", "linear"}, {"factor", x.rotary_interpolation}};
  if (x.scaling == rope_scaling::none)
    return nullptr;
  ordered_json out = {{"rope_type", x.scaling == rope_scaling::yarn ? "yarn" : "llama3"},
                      {"factor", x.scaling_factor},
                      {"original_max_position_embeddings", x.scaling_positions}};
  if (x.scaling == rope_scaling::llama3) {
    out["low_freq_factor"] = x.llama3_low;
    out["high_freq_factor"] = x.llama3_high;
    return out;
  }
  out["beta_fast"] = x.yarn_fast;
  out["beta_slow"] = x.yarn_slow;
  out["truncate"] = x.yarn_round;
  if (x.yarn_mscale_all != 0) {
    out["mscale"] = x.yarn_mscale;
    out["mscale_all_dim"] = x.yarn_mscale_all;
  }
  return out;
}

struct hub_kind {
  std::string_view type, architecture;
};

hub_kind kind_of(const gpt_config& x) {
  if (x.has_experts()) {
    const auto kind = kind_of_experts(x);
    return {kind,
            kind == "mixtral"       ? "MixtralForCausalLM"
            : kind == "qwen2_moe"   ? "Qwen2MoeForCausalLM"
            : kind == "qwen3_moe"   ? "Qwen3MoeForCausalLM"
            : kind == "olmoe"       ? "OlmoeForCausalLM"
            : kind == "deepseek_v2" ? "DeepseekV2ForCausalLM"
                                    : "DeepseekV3ForCausalLM"};
  }
  if (x.qk_norm)
    return {"qwen3", "Qwen3ForCausalLM"};
  if (x.qkv_bias && !x.linear_bias)
    return {"qwen2", "Qwen2ForCausalLM"};
  return x.window >= 0 ? hub_kind{"mistral", "MistralForCausalLM"}
                       : hub_kind{"llama", "LlamaForCausalLM"};
}

void add_qwen_experts(ordered_json& out, const gpt_config& x) {
  const auto& y = x.experts;
  const auto with = x.expert_layers();
  auto dense = ordered_json::array();
  for (std::size_t l = 0; l < with.size(); ++l)
    if (!with[l])
      dense.push_back(l);
  out["num_experts"] = y.number;
  out["moe_intermediate_size"] = y.ffn;
  out["norm_topk_prob"] = !y.pre_softmax;
  out["decoder_sparse_step"] = 1;
  out["mlp_only_layers"] = std::move(dense);
  if (y.shared_ffn > 0) {
    out["shared_expert_intermediate_size"] = y.shared_ffn;
    out["qkv_bias"] = x.qkv_bias;
  }
}

void add_deepseek(ordered_json& out, const gpt_config& x) {
  const auto& y = x.experts;
  const auto& z = x.latent;
  const bool third = y.score == "sigmoid", grouped = y.groups > 0;
  out["q_lora_rank"] = z.q_rank > 0 ? ordered_json(z.q_rank) : ordered_json();
  out["kv_lora_rank"] = z.kv_rank;
  out["qk_nope_head_dim"] = z.own_size;
  out["qk_rope_head_dim"] = z.rotated;
  out["v_head_dim"] = z.value_size;
  out["head_dim"] = z.rotated;
  out["n_routed_experts"] = y.number;
  out["moe_intermediate_size"] = y.ffn;
  out["n_shared_experts"] = y.shared_ffn / y.ffn;
  out["first_k_dense_replace"] = dense_at_first(x.expert_layers()).value_or(0);
  out["moe_layer_freq"] = 1;
  out["routed_scaling_factor"] = y.scale;
  out["n_group"] = grouped ? y.groups : 1;
  out["topk_group"] = grouped ? y.group_topk : 1;
  out["topk_method"] = third ? "noaux_tc" : grouped ? "group_limited_greedy" : "greedy";
  out["scoring_func"] = third ? "sigmoid" : "softmax";
  out["norm_topk_prob"] = third;
  if (!third)
    return;
  out["rope_interleave"] = x.rotary_interleaved;
  out["num_nextn_predict_layers"] = 0;  // transformers assumes 1
}

ordered_json llama_json(const gpt_config& x) {
  const auto [kind, architecture] = kind_of(x);
  const bool narrow = kind != "mixtral" && kind != "olmoe";  // experts have a width of their own
  ordered_json out = {{"architectures", {architecture}},
                      {"model_type", kind},
                      {"hidden_act", "silu"},
                      {"hidden_size", x.hidden},
                      {"intermediate_size", narrow ? x.ffn : x.experts.ffn},
                      {"num_hidden_layers", x.layers},
                      {"num_attention_heads", x.heads},
                      {"num_key_value_heads", x.groups},
                      {"head_dim", x.head_size},
                      {"max_position_embeddings", x.positions},
                      {"rms_norm_eps", x.norm_epsilon},
                      {"rope_theta", x.rotary_base},
                      {"rope_scaling", scaling_json(x)}};
  if (kind == "mistral" || (kind == "mixtral" && x.window >= 0))
    out["sliding_window"] = x.window + 1;  // the Hub's window includes the query itself
  else if (kind.starts_with("qwen"))
    out["use_sliding_window"] = false;
  else if (kind == "llama")
    out["attention_bias"] = out["mlp_bias"] = x.linear_bias;
  if (x.has_experts())
    out["num_experts_per_tok"] = x.experts.chosen;
  if (kind == "mixtral")
    out["num_local_experts"] = x.experts.number;
  else if (x.has_experts() && kind.starts_with("qwen"))
    add_qwen_experts(out, x);
  else if (kind == "olmoe")
    out.update({{"num_experts", x.experts.number}, {"norm_topk_prob", !x.experts.pre_softmax}});
  else if (x.has_latents())
    add_deepseek(out, x);
  out["attention_dropout"] = x.attention_dropout;
  return out;
}

ordered_json gpt2_json(const gpt_config& x) {
  const bool exact = x.activation == kernels::activation::gelu_erf;
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"activation_function", exact ? "gelu" : "gelu_new"},
          {"n_embd", x.hidden},
          {"n_head", x.heads},
          {"n_inner", x.ffn},
          {"n_layer", x.layers},
          {"n_positions", x.positions},
          {"layer_norm_epsilon", x.norm_epsilon},
          {"attn_pdrop", x.attention_dropout},
          {"embd_pdrop", x.hidden_dropout},
          {"resid_pdrop", x.hidden_dropout}};
}

}  // namespace

std::string gpt_to_hub(const gpt_config& config) {
  require_sayable(config);
  auto out = is_llama_like(config) ? llama_json(config) : gpt2_json(config);
  out["vocab_size"] = config.vocabulary;
  out["tie_word_embeddings"] = config.tied_embeddings;
  out["initializer_range"] = config.init_std;
  return json_text(out);
}

}  // namespace troupe::runtime

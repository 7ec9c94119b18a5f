#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/family/gpt/gpt_hub.hpp"

#include <nlohmann/json.hpp>

namespace troupe::runtime {
namespace {

using nlohmann::ordered_json;

bool is_llama_like(const gpt_config& x) {
  return x.position == position_embedding::rope;
}

/// Properties of the model that neither family can express.
std::vector<std::string> unsayable(const gpt_config& x) {
  std::vector<std::string> out;
  const auto must = [&](bool holds, const char* rule) {
    if (!holds)
      out.emplace_back(rule);
  };
  if (is_llama_like(x)) {
    must(x.normalization == kernels::normalization::rms, "`model.normalization` RMSNorm");
    must(x.activation == kernels::activation::swiglu, "`model.activation=swiglu`");
    must(x.rotary_percent == 1, "`model.rotary_percent` 1");
    must(!x.rotary_interleaved, "no `model.rotary_interleaved`");
    must(x.scaling == rope_scaling::none || x.rotary_interpolation == 1,
         "one way of stretching positions");
    must((x.yarn_mscale == 1 && x.yarn_mscale_all == 0)
             || (x.yarn_mscale != 0 && x.yarn_mscale_all != 0),
         "YaRN's mscale and mscale-all-dim both given or neither");
    must(int(x.qk_norm) + int(x.qkv_bias && !x.linear_bias) + int(x.window >= 0) <= 1,
         "only one of `model.qk_norm`, `model.qkv_bias` and `model.window`");
    must(!x.linear_bias || (!x.qk_norm && x.window < 0),
         "`model.linear_bias=false` with `model.qk_norm` or `model.window`");
    must(!x.qkv_bias || x.linear_bias || x.head_size * x.heads == x.hidden,
         "`model.head_size` hidden size / heads with `model.qkv_bias`");
    return out;
  }
  must(x.position == position_embedding::learned_absolute,
       "`model.position` learned_absolute or rope");
  must(x.normalization == kernels::normalization::layer, "`model.normalization` LayerNorm");
  must(x.activation == kernels::activation::gelu_tanh
           || x.activation == kernels::activation::gelu_erf,
       "GELU");
  must(x.groups == x.heads, "no `model.grouped_queries`");
  must(x.head_size * x.heads == x.hidden, "`model.head_size` hidden size / heads");
  must(x.linear_bias, "no `model.linear_bias=false`");
  must(!x.qk_norm, "no `model.qk_norm`");
  must(x.window < 0, "no `model.window`");
  return out;
}

void require_sayable(const gpt_config& x) {
  const auto wrong = unsayable(x);
  if (wrong.empty())
    return;
  std::string list;
  for (const auto& rule : wrong)
    list += "\n  " + rule;
  throw input_error(
      "no model family of the Hub fits. {} positions are exported as {}, which needs:{}\n"
      "Only models trained with these settings can be exported",
      is_llama_like(x) ? "Rotary" : "These",
      is_llama_like(x) ? "Llama, Mistral or Qwen" : "GPT-2",
      list);
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

ordered_json llama_json(const gpt_config& x) {
  const bool mistral = x.window >= 0, qwen2 = x.qkv_bias && !x.linear_bias;
  const auto* kind = x.qk_norm ? "qwen3" : qwen2 ? "qwen2" : mistral ? "mistral" : "llama";
  const auto* architecture = x.qk_norm ? "Qwen3ForCausalLM"
                             : qwen2   ? "Qwen2ForCausalLM"
                             : mistral ? "MistralForCausalLM"
                                       : "LlamaForCausalLM";
  ordered_json out = {{"architectures", {architecture}},
                      {"model_type", kind},
                      {"hidden_act", "silu"},
                      {"hidden_size", x.hidden},
                      {"intermediate_size", x.ffn},
                      {"num_hidden_layers", x.layers},
                      {"num_attention_heads", x.heads},
                      {"num_key_value_heads", x.groups},
                      {"head_dim", x.head_size},
                      {"max_position_embeddings", x.positions},
                      {"rms_norm_eps", x.norm_epsilon},
                      {"rope_theta", x.rotary_base},
                      {"rope_scaling", scaling_json(x)}};
  if (mistral)
    out["sliding_window"] = x.window + 1;  // the Hub's window includes the query itself
  else if (x.qk_norm || qwen2)
    out["use_sliding_window"] = false;
  else
    out["attention_bias"] = out["mlp_bias"] = x.linear_bias;
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

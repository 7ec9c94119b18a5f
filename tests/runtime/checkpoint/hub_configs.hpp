// config.json of small models of the Hub, for tests of imports.

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/family/gpt/gpt_hub.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace troupe::tests {

inline std::string refusal(const std::string& config_json) {
  try {
    runtime::gpt_from_hub(config_json, "'config.json'");
    return "";
  } catch (const runtime::input_error& failure) {
    return failure.what();
  }
}

inline nlohmann::json gpt2_json() {
  return {{"model_type", "gpt2"},
          {"vocab_size", 5},
          {"n_positions", 3},
          {"n_embd", 4},
          {"n_layer", 1},
          {"n_head", 2},
          {"n_inner", 6}};
}

inline nlohmann::json llama_json() {
  return {{"model_type", "llama"},
          {"vocab_size", 5},
          {"hidden_size", 8},
          {"intermediate_size", 12},
          {"num_hidden_layers", 1},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"rms_norm_eps", 1e-5},
          {"rope_scaling", nullptr}};
}

inline nlohmann::json mixtral_json() {
  auto out = llama_json();
  out["model_type"] = "mixtral";
  out["num_local_experts"] = 4;
  out["num_experts_per_tok"] = 2;
  return out;
}

inline nlohmann::json qwen_moe_json() {
  auto out = llama_json();
  out["model_type"] = "qwen2_moe";
  out["num_hidden_layers"] = 4;
  out["num_experts"] = 4;
  out["num_experts_per_tok"] = 2;
  out["moe_intermediate_size"] = 3;
  out["shared_expert_intermediate_size"] = 5;
  out["decoder_sparse_step"] = 2;
  return out;
}

inline nlohmann::json deepseek_json(int version) {
  auto out = llama_json();
  const bool third = version == 3;
  out["model_type"] = third ? "deepseek_v3" : "deepseek_v2";
  out["num_hidden_layers"] = 2;
  out["num_key_value_heads"] = 4;
  out["rms_norm_eps"] = 1e-6;
  out["q_lora_rank"] = 3;
  out["kv_lora_rank"] = 2;
  out["qk_nope_head_dim"] = 4;
  out["qk_rope_head_dim"] = 2;
  out["v_head_dim"] = 5;
  out["n_routed_experts"] = 8;
  out["num_experts_per_tok"] = 4;
  out["moe_intermediate_size"] = 3;
  out["n_shared_experts"] = 2;
  out["first_k_dense_replace"] = 1;
  out["n_group"] = 4;
  out["topk_group"] = 2;
  out["topk_method"] = third ? "noaux_tc" : "greedy";
  out["scoring_func"] = third ? "sigmoid" : "softmax";
  out["norm_topk_prob"] = third;
  out["routed_scaling_factor"] = third ? 2.5 : 1.0;
  return out;
}

}  // namespace troupe::tests

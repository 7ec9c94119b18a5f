#include "runtime/family/gpt/hub_experts.hpp"

#include <algorithm>
#include <iterator>

namespace troupe::runtime {
namespace {

/// Qwen: `mlp_only_layers` have none, and of the others each `decoder_sparse_step`-th has some.
std::vector<bool> qwen_layers(const hub_fields& in, std::int64_t layers) {
  const auto step = in.size("decoder_sparse_step", 1);
  std::vector<bool> out;
  for (std::int64_t l = 0; l < layers; ++l)
    out.push_back((l + 1) % step == 0);
  const auto* dense = in.find("mlp_only_layers");
  if (dense == nullptr)
    return out;
  if (!dense->is_array())
    in.refuse("mlp_only_layers", "a list of layers");
  for (const auto& l : *dense) {
    if (!l.is_number_unsigned() || l.get<std::uint64_t>() >= out.size())
      in.refuse("mlp_only_layers", "a list of layers");
    out[l.get<std::size_t>()] = false;
  }
  return out;
}

/// transformers 5 writes a Qwen3-MoE's number of experts with another name than the published
/// files.
std::int64_t number_of_experts(const hub_fields& in) {
  const auto *one = in.find("num_experts"), *other = in.find("num_local_experts");
  if (one != nullptr && other != nullptr && *one != *other)
    in.refuse("num_local_experts", "num_experts");
  return in.size(other != nullptr ? "num_local_experts" : "num_experts");
}

void read_qwen_experts(const hub_fields& in, std::string_view kind, gpt_config& x) {
  auto& y = x.experts;
  y.number = number_of_experts(in);
  y.ffn = in.size("moe_intermediate_size");
  y.pre_softmax = !in.flag("norm_topk_prob", false);
  y.layers = pattern_of(qwen_layers(in, x.layers));
  if (kind == "qwen2_moe") {
    y.shared_ffn = in.size("shared_expert_intermediate_size");
    y.shared_gate = true;
  }
}

/// An expert has the width of a feed-forward layer. The norms are of whole rows.
void read_olmoe(const hub_fields& in, gpt_config& x) {
  in.require("clip_qkv", nullptr);
  x.qk_norm = x.qk_norm_rows = true;
  x.experts.number = number_of_experts(in);
  x.experts.ffn = x.ffn;
  x.experts.pre_softmax = !in.flag("norm_topk_prob", false);
}

/// Norms of latents have transformers' default epsilon, whatever the other norms have.
void read_latents(const hub_fields& in, gpt_config& x) {
  auto& y = x.latent;
  if (x.norm_epsilon != 1e-6)
    y.norm_epsilon = 1e-6;
  if (in.size("num_key_value_heads", x.heads) != x.heads)
    in.refuse("num_key_value_heads", "num_attention_heads");
  if (!in.has("q_lora_rank"))  // transformers assumes 1536
    in.refuse("q_lora_rank", "null or a number");
  if (in.find("q_lora_rank") != nullptr)
    y.q_rank = in.size("q_lora_rank");
  y.kv_rank = in.size("kv_lora_rank");
  y.own_size = in.size("qk_nope_head_dim");
  y.rotated = in.size("qk_rope_head_dim");
  y.value_size = in.size("v_head_dim");
  x.head_size = y.own_size + y.rotated;
  x.qk_norm = true;
}

/// DeepSeek's groups restrict the choice only if fewer than all of them are chosen.
void read_groups(const hub_fields& in, experts_config& y) {
  const auto groups = in.size("n_group"), chosen = in.size("topk_group");
  if (chosen >= groups)
    return;
  y.groups = groups;
  y.group_topk = chosen;
}

void read_deepseek(const hub_fields& in, std::string_view kind, gpt_config& x) {
  auto& y = x.experts;
  read_latents(in, x);
  y.number = in.size("n_routed_experts");
  y.ffn = in.size("moe_intermediate_size");
  y.scale = in.number("routed_scaling_factor", kind == "deepseek_v3" ? 2.5 : 1);
  y.shared_ffn = in.size("n_shared_experts") * y.ffn;
  in.require("moe_layer_freq", 1);
  std::vector<bool> with(std::size_t(x.layers), true);
  const auto usual = kind == "deepseek_v3" ? 3 : 0;  // of transformers
  const auto dense = std::min(in.size("first_k_dense_replace", usual, 0), x.layers);
  std::fill_n(with.begin(), dense, false);
  y.layers = pattern_of(with);
  if (kind == "deepseek_v3") {
    in.require("scoring_func", "sigmoid");
    in.require("topk_method", "noaux_tc");
    in.require("norm_topk_prob", true);
    y.score = "sigmoid";
    y.expert_bias = true;
    x.rotary_interleaved = in.flag("rope_interleave", true);
    read_groups(in, y);
    if (y.chosen < 2)
      in.refuse("num_experts_per_tok", "2 or more");
    if (y.groups > 0 && y.chosen / y.group_topk != 2)
      in.refuse("topk_group", "half of num_experts_per_tok");
    return;
  }
  in.require("scoring_func", "softmax");
  in.require("norm_topk_prob", false);
  y.pre_softmax = true;
  x.rotary_interleaved = true;
  const auto method = in.text("topk_method", "greedy");
  if (method == "group_limited_greedy") {
    read_groups(in, y);
    y.group_score = y.groups > 0 ? "max" : "sum";
  } else if (method != "greedy") {
    in.refuse("topk_method", "greedy or group_limited_greedy");
  }
}

}  // namespace

bool has_hub_experts(std::string_view kind) {
  constexpr std::string_view all[]
      = {"mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "deepseek_v2", "deepseek_v3"};
  return std::find(std::begin(all), std::end(all), kind) != std::end(all);
}

void read_hub_experts(const hub_fields& in, std::string_view kind, gpt_config& x) {
  if (x.layers > 10000)
    in.refuse("num_hidden_layers", "1 to 10000");
  x.experts.chosen = in.size("num_experts_per_tok");
  if (kind == "mixtral") {
    x.experts.number = number_of_experts(in);
    x.experts.ffn = x.ffn;
  } else if (kind.starts_with("qwen")) {
    read_qwen_experts(in, kind, x);
  } else if (kind == "olmoe") {
    read_olmoe(in, x);
  } else {
    read_deepseek(in, kind, x);
  }
}

}  // namespace troupe::runtime

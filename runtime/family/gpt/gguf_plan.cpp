#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/number_range.hpp"
#include "runtime/family/gpt/gpt_gguf.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::runtime {
namespace {

using nlohmann::ordered_json;

constexpr std::pair<std::string_view, std::string_view> gguf_stems[]
    = {{"model.embed_tokens", "token_embd"},
       {"model.norm", "output_norm"},
       {"lm_head", "output"},
       {"transformer.wte", "token_embd"},
       {"transformer.wpe", "position_embd"},
       {"transformer.ln_f", "output_norm"},
       {"input_layernorm", "attn_norm"},
       {"post_attention_layernorm", "ffn_norm"},
       {"self_attn.q_proj", "attn_q"},
       {"self_attn.k_proj", "attn_k"},
       {"self_attn.v_proj", "attn_v"},
       {"self_attn.o_proj", "attn_output"},
       {"self_attn.q_norm", "attn_q_norm"},
       {"self_attn.k_norm", "attn_k_norm"},
       {"mlp.gate_proj", "ffn_gate"},
       {"mlp.up_proj", "ffn_up"},
       {"mlp.down_proj", "ffn_down"},
       {"mlp.gate", "ffn_gate_inp"},
       {"block_sparse_moe.gate", "ffn_gate_inp"},
       {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
       {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
       {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
       {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
       {"experts.gate_proj", "ffn_gate_exps"},
       {"experts.up_proj", "ffn_up_exps"},
       {"experts.down_proj", "ffn_down_exps"},
       {"experts.w1", "ffn_gate_exps"},
       {"experts.w3", "ffn_up_exps"},
       {"experts.w2", "ffn_down_exps"},
       {"ln_1", "attn_norm"},
       {"attn.c_attn", "attn_qkv"},
       {"attn.c_proj", "attn_output"},
       {"ln_2", "ffn_norm"},
       {"mlp.c_fc", "ffn_up"},
       {"mlp.c_proj", "ffn_down"}};

/// Takes the text up to the next dot.
std::string_view taken(std::string_view& from) {
  const auto out = from.substr(0, from.find('.'));
  from.remove_prefix(std::min(from.size(), out.size() + 1));
  return out;
}

gguf_place place_of(std::string_view source, std::int64_t paired) {
  gguf_place out;
  for (const std::string_view layers : {"model.layers.", "transformer.h."})
    if (source.starts_with(layers)) {
      source.remove_prefix(layers.size());
      out.tensor = fmt::format("blk.{}.", taken(source));
    }
  const auto dot = source.rfind('.');
  auto stem = std::string(source.substr(0, dot));
  const auto kind = source.substr(std::min(dot, source.size()));
  constexpr std::string_view experts = ".experts.";
  if (const auto at = stem.find(experts); at != stem.npos) {
    auto rest = std::string_view(stem).substr(at + experts.size());
    out.matrix = number_in(whole_range{}, taken(rest)).value_or(-1);
    stem = "experts." + std::string(rest);
  }
  const auto* const found
      = std::ranges::find(gguf_stems, stem, &std::pair<std::string_view, std::string_view>::first);
  ensure(found != std::end(gguf_stems), "GGUF-7: each tensor of a GPT has a name in GGUF");
  out.tensor += std::string(found->second) + std::string(kind);
  if (found->second == "attn_q" || found->second == "attn_k")
    out.paired = paired;
  return out;
}

ordered_json number_of(const ordered_json& x) {
  return x.get<double>();
}

void add_scaling(ordered_json& out,
                 const std::string& above,
                 const ordered_json& rope,
                 hub_rules& rules) {
  const auto kind = rope.at("rope_type").get<std::string>();
  if (kind == "llama3") {  // is in rope_freqs.weight; llama.cpp ignores the key
    out[above + "rope.scaling.original_context_length"]
        = rope.at("original_max_position_embeddings");
    rules.must(rope.at("low_freq_factor") == 1 && rope.at("high_freq_factor") == 4,
               "`model.llama3_low` 1 and `model.llama3_high` 4");
    return;
  }
  out[above + "rope.scaling.type"] = kind;
  out[above + "rope.scaling.factor"] = number_of(rope.at("factor"));
  if (kind != "yarn")
    return;
  out[above + "rope.scaling.original_context_length"] = rope.at("original_max_position_embeddings");
  rules.must(rope.at("beta_fast") == 32 && rope.at("beta_slow") == 1 && rope.at("truncate") == true
                 && !rope.contains("mscale"),
             "YaRN with its default beta-fast, beta-slow, rounding and mscale");
}

void add_llama(ordered_json& out,
               const std::string& above,
               const gguf_kind& kind,
               const ordered_json& config,
               hub_rules& rules) {
  out[above + "attention.head_count_kv"] = config.at("num_key_value_heads");
  out[above + "attention.key_length"] = config.at("head_dim");
  out[above + "attention.value_length"] = config.at("head_dim");
  out[above + "attention.layer_norm_rms_epsilon"] = number_of(config.at("rms_norm_eps"));
  out[above + "rope.dimension_count"] = config.at("head_dim");
  out[above + "rope.freq_base"] = number_of(config.at("rope_theta"));
  if (!config.at("rope_scaling").is_null())
    add_scaling(out, above, config.at("rope_scaling"), rules);
  rules.must(!config.contains("sliding_window"), "no `model.window`");
  if (!kind.experts)
    return;
  out[above + "expert_count"]
      = config.at(config.contains("num_experts") ? "num_experts" : "num_local_experts");
  out[above + "expert_used_count"] = config.at("num_experts_per_tok");
  rules.must(config.value("norm_topk_prob", true) == kind.normalised,
             kind.normalised ? "no `model.experts.pre_softmax`" : "`model.experts.pre_softmax`");
  if (!config.contains("moe_intermediate_size"))
    return;
  out[above + "expert_feed_forward_length"] = config.at("moe_intermediate_size");
  rules.must(config.at("mlp_only_layers").empty(), "experts in all layers");
  if (config.contains("shared_expert_intermediate_size"))
    out[above + "expert_shared_feed_forward_length"] = config.at("shared_expert_intermediate_size");
}

}  // namespace

gguf_plan gguf_of_gpt(const gpt_config& x, std::string_view config_json) {
  const auto config = ordered_json_value(config_json);
  auto type = config.at("model_type").get<std::string>();
  if (type == "mistral")
    type = "llama";  // the window is refused below
  const auto* const kind = std::ranges::find(gguf_kinds, type, &gguf_kind::type);
  if (kind == std::end(gguf_kinds))
    throw input_error(
        "GGUF files of a {} are not written: export the model as a folder of Hugging Face, and "
        "convert that with llama.cpp",
        type);
  gguf_plan out{.architecture = std::string(kind->architecture)};
  const auto above = out.architecture + ".";
  auto& to = out.metadata;
  const bool gpt2 = type == "gpt2";
  const auto of
      = [&](const char* gpt2_name, const char* name) { return config.at(gpt2 ? gpt2_name : name); };
  to["general.architecture"] = out.architecture;
  to[above + "block_count"] = of("n_layer", "num_hidden_layers");
  to[above + "context_length"] = of("n_positions", "max_position_embeddings");
  to[above + "embedding_length"] = of("n_embd", "hidden_size");
  to[above + "feed_forward_length"] = of("n_inner", "intermediate_size");
  to[above + "attention.head_count"] = of("n_head", "num_attention_heads");
  hub_rules rules;
  if (gpt2) {
    to[above + "attention.layer_norm_epsilon"] = number_of(config.at("layer_norm_epsilon"));
    rules.must(config.at("activation_function") == "gelu_new", "GELU by tanh (`model.activation`)");
  } else {
    add_llama(to, above, *kind, config, rules);
  }
  rules.require_gguf(out.architecture);
  if (x.scaling == rope_scaling::llama3)
    for (std::int64_t i = 0; i < x.head_size / 2; ++i)
      out.rotary_factors.push_back(float(rotary_factor(
          {x.scaling_factor, x.llama3_low, x.llama3_high, double(x.scaling_positions)},
          x.rotary_base,
          x.head_size,
          i)));
  const auto paired = out.architecture == "llama" ? x.head_size : 0;
  out.place = [paired](std::string_view source) { return place_of(source, paired); };
  return out;
}

}  // namespace troupe::runtime

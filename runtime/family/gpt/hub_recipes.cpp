#include "runtime/family/gpt/gpt_hub.hpp"
#include "runtime/family/recipe_book.hpp"

#include <fmt/format.h>
#include <utility>

namespace troupe::runtime {
namespace {

using std::int64_t;

constexpr int64_t vector = recipe_book::vector;

/// GPT-2's c_attn is [query; key; value]. Troupe keeps the three of each head together.
std::vector<hub_rows> gpt2_qkv(const gpt_config& c, const std::string& source) {
  std::vector<hub_rows> out;
  for (int64_t head = 0; head < c.heads; ++head)
    for (int64_t part = 0; part < 3; ++part)
      out.push_back({source, part * c.hidden + head * c.head_size, c.head_size, c.qkv_width()});
  return out;
}

void add_gpt2_layer(recipe_book& to,
                    const gpt_config& c,
                    const std::string& ours,
                    const std::string& theirs) {
  const auto norm = [&](const std::string& name, const std::string& source) {
    to.copy(ours + name + ".weight", theirs + source + ".weight", c.hidden, vector);
    to.copy(ours + name + ".bias", theirs + source + ".bias", c.hidden, vector);
  };
  const auto linear
      = [&](const std::string& name, const std::string& source, int64_t out, int64_t in) {
          to.add_transposed(
              ours + name + ".weight", out, in, {{theirs + source + ".weight", 0, out, out}});
          to.copy(ours + name + ".bias", theirs + source + ".bias", out, vector);
        };
  const auto qkv = ours + "self_attention.linear_qkv", c_attn = theirs + "attn.c_attn";
  norm("input_layernorm", "ln_1");
  to.add_transposed(qkv + ".weight", c.qkv_width(), c.hidden, gpt2_qkv(c, c_attn + ".weight"));
  to.add(qkv + ".bias", c.qkv_width(), vector, gpt2_qkv(c, c_attn + ".bias"));
  linear("self_attention.linear_proj", "attn.c_proj", c.hidden, c.hidden);
  norm("pre_mlp_layernorm", "ln_2");
  linear("mlp.linear_fc1", "mlp.c_fc", c.ffn, c.hidden);
  linear("mlp.linear_fc2", "mlp.c_proj", c.hidden, c.ffn);
}

std::vector<hub_recipe> gpt2_recipes(const gpt_config& c, const std::string& prefix) {
  recipe_book to;
  to.copy("embedding.word_embeddings.weight", prefix + "wte.weight", c.vocabulary, c.hidden);
  to.copy("embedding.position_embeddings.weight", prefix + "wpe.weight", c.positions, c.hidden);
  for (int64_t layer = 0; layer < c.layers; ++layer)
    add_gpt2_layer(
        to, c, fmt::format("decoder.layers.{}.", layer), fmt::format("{}h.{}.", prefix, layer));
  to.copy("decoder.final_layernorm.weight", prefix + "ln_f.weight", c.hidden, vector);
  to.copy("decoder.final_layernorm.bias", prefix + "ln_f.bias", c.hidden, vector);
  if (!c.tied_embeddings)
    to.copy("output_layer.weight", "lm_head.weight", c.vocabulary, c.hidden);
  return to.take();
}

/// `theirs` ends with "self_attn.".
std::vector<hub_rows> llama_qkv(const gpt_config& c,
                                const std::string& theirs,
                                const std::string& kind) {
  return fused_qkv(
      {theirs + "q_proj." + kind, theirs + "k_proj." + kind, theirs + "v_proj." + kind},
      c.heads,
      c.groups,
      c.head_size);
}

/// A gated feed-forward layer, or shared experts.
void add_llama_feed_forward(recipe_book& to,
                            const std::string& ours,
                            const std::string& theirs,
                            int64_t hidden,
                            int64_t ffn,
                            const std::string& kind = "weight") {
  const auto columns = [&](int64_t in) { return kind == "weight" ? in : vector; };
  to.add(ours + "linear_fc1." + kind,
         2 * ffn,
         columns(hidden),
         {{theirs + "gate_proj." + kind, 0, ffn, ffn}, {theirs + "up_proj." + kind, 0, ffn, ffn}});
  to.copy(ours + "linear_fc2." + kind, theirs + "down_proj." + kind, hidden, columns(ffn));
}

/// `ours` and `theirs` end with the name of the feed-forward layer.
void add_experts(recipe_book& to,
                 const gpt_config& c,
                 const std::string& ours,
                 const std::string& theirs,
                 bool mixtral) {
  const auto& x = c.experts;
  std::vector<hub_rows> fc1, fc2;
  for (int64_t e = 0; e < x.number; ++e) {
    const auto of
        = [&](const char* part) { return fmt::format("{}experts.{}.{}.weight", theirs, e, part); };
    fc1.push_back({of(mixtral ? "w1" : "gate_proj"), 0, x.ffn, x.ffn});
    fc1.push_back({of(mixtral ? "w3" : "up_proj"), 0, x.ffn, x.ffn});
    fc2.push_back({of(mixtral ? "w2" : "down_proj"), 0, c.hidden, c.hidden});
  }
  to.copy(ours + "router.weight", theirs + "gate.weight", x.number, c.hidden);
  if (x.expert_bias)
    to.copy_in_f32(ours + "router.expert_bias", theirs + "gate.e_score_correction_bias", x.number);
  to.stack(ours + "experts.linear_fc1.weight", x.number, 2 * x.ffn, c.hidden, std::move(fc1));
  to.stack(ours + "experts.linear_fc2.weight", x.number, c.hidden, x.ffn, std::move(fc2));
  if (x.shared_ffn == 0)
    return;
  const auto shared = theirs + (x.shared_gate ? "shared_expert." : "shared_experts.");
  add_llama_feed_forward(to, ours + "shared_experts.", shared, c.hidden, x.shared_ffn);
  if (x.shared_gate)
    to.copy(ours + "shared_experts.gate_weight", theirs + "shared_expert_gate.weight", 1, c.hidden);
}

/// `ours` ends with "self_attention.", `theirs` with "self_attn.".
void add_latent_attention(recipe_book& to,
                          const gpt_config& c,
                          const std::string& ours,
                          const std::string& theirs) {
  const auto& x = c.latent;
  const auto C = c.hidden, heads = c.heads;
  const auto copy = [&](const char* name, const char* source, int64_t rows, int64_t columns) {
    to.copy(ours + name + ".weight", theirs + source + ".weight", rows, columns);
  };
  if (x.q_rank > 0) {
    copy("linear_q_down_proj", "q_a_proj", x.q_rank, C);
    copy("q_layernorm", "q_a_layernorm", x.q_rank, vector);
    copy("linear_q_up_proj", "q_b_proj", heads * c.head_size, x.q_rank);
  } else {
    copy("linear_q_proj", "q_proj", heads * c.head_size, C);
  }
  copy("linear_kv_down_proj", "kv_a_proj_with_mqa", x.kv_rank + x.rotated, C);
  copy("kv_layernorm", "kv_a_layernorm", x.kv_rank, vector);
  copy("linear_kv_up_proj", "kv_b_proj", heads * (x.own_size + x.value_size), x.kv_rank);
  copy("linear_proj", "o_proj", C, heads * x.value_size);
}

/// `ours` ends with "self_attention.", `theirs` with "self_attn.".
void add_llama_attention(recipe_book& to,
                         const gpt_config& c,
                         const std::string& ours,
                         const std::string& theirs) {
  if (c.qk_norm)
    for (const auto& [x, heads] : {std::pair("q", c.heads), std::pair("k", c.groups)})
      to.copy(fmt::format("{}{}_layernorm.weight", ours, x),
              fmt::format("{}{}_norm.weight", theirs, x),
              (c.qk_norm_rows ? heads : 1) * c.head_size,
              vector);
  to.add(ours + "linear_qkv.weight", c.qkv_width(), c.hidden, llama_qkv(c, theirs, "weight"));
  to.copy(ours + "linear_proj.weight", theirs + "o_proj.weight", c.hidden, c.heads * c.head_size);
}

/// `ours` and `theirs` end with the number of the layer.
void add_llama_biases(recipe_book& to,
                      const gpt_config& c,
                      const std::string& ours,
                      const std::string& theirs) {
  if (c.linear_bias || c.qkv_bias)
    to.add(ours + "self_attention.linear_qkv.bias",
           c.qkv_width(),
           vector,
           llama_qkv(c, theirs + "self_attn.", "bias"));
  if (!c.linear_bias)
    return;
  to.copy(
      ours + "self_attention.linear_proj.bias", theirs + "self_attn.o_proj.bias", c.hidden, vector);
  add_llama_feed_forward(to, ours + "mlp.", theirs + "mlp.", c.hidden, c.ffn, "bias");
}

std::vector<hub_recipe> llama_recipes(const gpt_config& c) {
  recipe_book to;
  to.copy("embedding.word_embeddings.weight", "model.embed_tokens.weight", c.vocabulary, c.hidden);
  const auto with_experts = c.expert_layers();
  const bool mixtral
      = c.has_experts() && !c.has_latents() && c.experts.shared_ffn == 0 && !c.qk_norm;
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const auto ours = fmt::format("decoder.layers.{}.", layer);
    const auto theirs = fmt::format("model.layers.{}.", layer);
    to.copy(ours + "input_layernorm.weight", theirs + "input_layernorm.weight", c.hidden, vector);
    to.copy(ours + "pre_mlp_layernorm.weight",
            theirs + "post_attention_layernorm.weight",
            c.hidden,
            vector);
    const auto attention = c.has_latents() ? add_latent_attention : add_llama_attention;
    attention(to, c, ours + "self_attention.", theirs + "self_attn.");
    if (!with_experts.empty() && with_experts.at(std::size_t(layer)))
      add_experts(to, c, ours + "mlp.", theirs + (mixtral ? "block_sparse_moe." : "mlp."), mixtral);
    else
      add_llama_feed_forward(to, ours + "mlp.", theirs + "mlp.", c.hidden, c.ffn);
    add_llama_biases(to, c, ours, theirs);
  }
  to.copy("decoder.final_layernorm.weight", "model.norm.weight", c.hidden, vector);
  if (!c.tied_embeddings)
    to.copy("output_layer.weight", "lm_head.weight", c.vocabulary, c.hidden);
  return to.take();
}

}  // namespace

std::vector<hub_recipe> gpt_hub_recipes(const gpt_config& config, const std::string& prefix) {
  return config.position == position_embedding::rope ? llama_recipes(config)
                                                     : gpt2_recipes(config, prefix);
}

}  // namespace troupe::runtime

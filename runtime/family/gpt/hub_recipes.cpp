#include "runtime/family/gpt/gpt_hub.hpp"

#include <fmt/format.h>
#include <utility>

namespace troupe::runtime {
namespace {

using std::int64_t;

constexpr int64_t vector = 0;  // columns value that means a vector

/// Collects recipes. `rows` and `columns` are those of the Troupe tensor.
class recipe_book {
 public:
  /// Takes one whole source tensor.
  void copy(std::string name, std::string source, int64_t rows, int64_t columns) {
    add(std::move(name), rows, columns, {{std::move(source), 0, rows, rows}});
  }

  void add(std::string name, int64_t rows, int64_t columns, std::vector<hub_rows> parts) {
    const auto extents = columns == vector ? shape{rows} : shape{rows, columns};
    recipes_.push_back({std::move(name), extents, false, std::move(parts)});
  }

  /// Adds a recipe with sources stored as (in, out).
  void add_transposed(std::string name,
                      int64_t rows,
                      int64_t columns,
                      std::vector<hub_rows> parts) {
    recipes_.push_back({std::move(name), {rows, columns}, true, std::move(parts)});
  }

  std::vector<hub_recipe> take() { return std::move(recipes_); }

 private:
  std::vector<hub_recipe> recipes_;
};

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

/// Orders the rows by group: its query heads, its key head and its value head. `theirs` ends with
/// "self_attn.".
std::vector<hub_rows> llama_qkv(const gpt_config& c,
                                const std::string& theirs,
                                const std::string& kind) {
  const auto D = c.head_size, queries = c.heads / c.groups * D;
  std::vector<hub_rows> out;
  for (int64_t group = 0; group < c.groups; ++group) {
    out.push_back({theirs + "q_proj." + kind, group * queries, queries, c.heads * D});
    out.push_back({theirs + "k_proj." + kind, group * D, D, c.groups * D});
    out.push_back({theirs + "v_proj." + kind, group * D, D, c.groups * D});
  }
  return out;
}

void add_llama_linears(recipe_book& to,
                       const gpt_config& c,
                       const std::string& ours,
                       const std::string& theirs,
                       const std::string& kind) {
  const auto columns = [&](int64_t in) { return kind == "weight" ? in : vector; };
  to.copy(ours + "self_attention.linear_proj." + kind,
          theirs + "self_attn.o_proj." + kind,
          c.hidden,
          columns(c.heads * c.head_size));
  to.add(ours + "mlp.linear_fc1." + kind,
         2 * c.ffn,
         columns(c.hidden),
         {{theirs + "mlp.gate_proj." + kind, 0, c.ffn, c.ffn},
          {theirs + "mlp.up_proj." + kind, 0, c.ffn, c.ffn}});
  to.copy(
      ours + "mlp.linear_fc2." + kind, theirs + "mlp.down_proj." + kind, c.hidden, columns(c.ffn));
}

std::vector<hub_recipe> llama_recipes(const gpt_config& c) {
  recipe_book to;
  to.copy("embedding.word_embeddings.weight", "model.embed_tokens.weight", c.vocabulary, c.hidden);
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const auto ours = fmt::format("decoder.layers.{}.", layer);
    const auto theirs = fmt::format("model.layers.{}.", layer);
    to.copy(ours + "input_layernorm.weight", theirs + "input_layernorm.weight", c.hidden, vector);
    to.copy(ours + "pre_mlp_layernorm.weight",
            theirs + "post_attention_layernorm.weight",
            c.hidden,
            vector);
    if (c.qk_norm)
      for (const auto* x : {"q", "k"})
        to.copy(fmt::format("{}self_attention.{}_layernorm.weight", ours, x),
                fmt::format("{}self_attn.{}_norm.weight", theirs, x),
                c.head_size,
                vector);
    const auto qkv = [&](const char* kind, int64_t columns) {
      to.add(fmt::format("{}self_attention.linear_qkv.{}", ours, kind),
             c.qkv_width(),
             columns,
             llama_qkv(c, theirs + "self_attn.", kind));
    };
    qkv("weight", c.hidden);
    add_llama_linears(to, c, ours, theirs, "weight");
    if (c.linear_bias || c.qkv_bias)
      qkv("bias", vector);
    if (c.linear_bias)
      add_llama_linears(to, c, ours, theirs, "bias");
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

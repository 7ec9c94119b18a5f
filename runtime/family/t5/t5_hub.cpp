#include "runtime/core/json_text.hpp"
#include "runtime/family/hub_fields.hpp"
#include "runtime/family/recipe_book.hpp"
#include "runtime/family/t5/t5.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <iterator>
#include <nlohmann/json.hpp>

namespace troupe::runtime {
namespace {

constexpr std::int64_t usual_length = 512;  // of T5's own models; relative positions have no limit

/// "feed_forward_proj", and our activation. transformers reads "gated-gelu" as the tanh formula.
struct named_projection {
  std::string_view theirs, ours;
};
constexpr named_projection projections[] = {{"relu", "relu"},
                                            {"gated-gelu", "geglu"},
                                            {"gelu", "gelu_erf"},
                                            {"gelu_new", "gelu_tanh"},
                                            {"silu", "silu"},
                                            {"relu2", "squared_relu"},
                                            {"gated-relu", "reglu"},
                                            {"gated-gelu_new", "geglu"},
                                            {"gated-silu", "swiglu"},
                                            {"swish", "silu"},
                                            {"gated-swish", "swiglu"}};

/// The properties that a T5 of the Hub has.
std::vector<std::string> unsayable(const t5_config& x) {
  std::vector<std::string> out;
  const auto must = [&out](bool holds, const char* rule) {
    if (!holds)
      out.emplace_back(rule);
  };
  must(x.is_relative(), "`model.position` relative");
  must(x.normalization == "RMSNorm", "`model.normalization` RMSNorm");
  must(!x.linear_bias, "`model.linear_bias=false`");
  must(!x.head_bias && !x.scores_scaled && x.head_scaled == x.tied_embeddings,
       "`model.form` v1.0 or v1.1");
  return out;
}

class t5_translation final : public hub_translation {
 public:
  bool reads(std::string_view model_type) const override { return model_type == "t5"; }

  model_description model_of(std::string_view config_json,
                             const std::string& where) const override {
    const hub_fields in(parse_json(config_json, where), where);
    in.require("is_encoder_decoder", true);
    const auto kind = in.text("feed_forward_proj", "relu");
    const auto* const projection = std::ranges::find(projections, kind, &named_projection::theirs);
    if (projection == std::end(projections))
      in.refuse("feed_forward_proj",
                "relu, gelu, gelu_new, silu, relu2, or gated- and one of them");
    const bool tied = in.flag("tie_word_embeddings", true);
    auto out = t5_form(tied ? "v1.0" : "v1.1");
    out.head_scaled = in.flag("scale_decoder_outputs", tied);  // files of transformers 5
    out.activation = projection->ours;
    out.encoder_layers = in.size("num_layers", 6);
    out.decoder_layers = in.size("num_decoder_layers", out.encoder_layers);
    out.hidden = in.size("d_model", 512);
    out.heads = in.size("num_heads", 8);
    out.head_size = in.size("d_kv", 64);
    out.ffn = in.size("d_ff", 2048);
    out.encoder_sequence = out.decoder_sequence = in.size("n_positions", usual_length);
    out.vocabulary = out.padded_vocabulary = in.size("vocab_size", 32128);
    out.buckets = in.size("relative_attention_num_buckets", 32);
    out.most_distance = in.size("relative_attention_max_distance", 128);
    out.norm_epsilon = in.number("layer_norm_epsilon", 1e-6);
    out.hidden_dropout = out.attention_dropout = 0;
    if (const auto wrong = validate(out); !wrong.empty())
      throw input_error("{}: {}", where, wrong.front());
    return out;
  }

  std::string config_json(const model_description& model) const override {
    const auto& x = model.as<t5_config>();
    if (const auto wrong = unsayable(x); !wrong.empty()) {
      std::string list;
      for (const auto& rule : wrong)
        list += "\n  " + rule;
      throw input_error(
          "no model family of the Hub fits. This model is exported as T5, which needs:{}\nOnly "
          "models trained with these settings can be exported",
          list);
    }
    const auto* const projection
        = std::ranges::find(projections, x.activation, &named_projection::ours);
    const nlohmann::ordered_json out
        = {{"architectures", {"T5ForConditionalGeneration"}},
           {"model_type", "t5"},
           {"is_encoder_decoder", true},
           {"d_model", x.hidden},
           {"d_kv", x.head_size},
           {"d_ff", x.ffn},
           {"num_layers", x.encoder_layers},
           {"num_decoder_layers", x.decoder_layers},
           {"num_heads", x.heads},
           {"n_positions", std::max(x.encoder_sequence, x.decoder_sequence)},
           {"relative_attention_num_buckets", x.buckets},
           {"relative_attention_max_distance", x.most_distance},
           {"feed_forward_proj", projection->theirs},
           {"layer_norm_epsilon", x.norm_epsilon},
           {"dropout_rate", x.hidden_dropout},
           {"initializer_factor", 1.0},
           {"tie_word_embeddings", x.tied_embeddings},
           {"scale_decoder_outputs", x.head_scaled},
           {"decoder_start_token_id", 0},
           {"pad_token_id", 0},
           {"vocab_size", x.vocabulary}};
    return json_text(out);
  }

  std::vector<hub_recipe> recipes(
      const model_description& model,
      const std::function<bool(std::string_view)>& /*has*/) const override {
    const auto& c = model.as<t5_config>();
    recipe_book to;
    to.copy("embedding.word_embeddings.weight", "shared.weight", c.vocabulary, c.hidden);
    for (const auto& [stack, layers] :
         {std::pair("encoder", c.encoder_layers), std::pair("decoder", c.decoder_layers)}) {
      const bool decoder = std::string_view(stack) == "decoder";
      for (std::int64_t l = 0; l < layers; ++l)
        add_layer(to,
                  c,
                  fmt::format("{}.layers.{}.", stack, l),
                  fmt::format("{}.block.{}.layer.", stack, l),
                  decoder,
                  l == 0);
      to.copy(fmt::format("{}.final_layernorm.weight", stack),
              fmt::format("{}.final_layer_norm.weight", stack),
              c.hidden,
              recipe_book::vector);
    }
    if (!c.tied_embeddings)
      to.copy("output_layer.weight", "lm_head.weight", c.vocabulary, c.hidden);
    return to.take();
  }

  // Old files repeat the table, and have a table of cross-attention that nothing reads.
  std::string copied_from(std::string_view source,
                          const std::vector<hub_recipe>& all) const override {
    const bool is_head = source == "lm_head.weight" && all.back().name != "output_layer.weight";
    return is_head || source == "encoder.embed_tokens.weight"
                   || source == "decoder.embed_tokens.weight"
               ? "shared.weight"
               : "";
  }
  bool is_left_out(const model_description& /*model*/, std::string_view source) const override {
    return source == "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";
  }

  bool is_same_function(const model_description& there,
                        const model_description& here) const override {
    auto x = there.as<t5_config>();
    const auto& y = here.as<t5_config>();
    for (const auto member : {&t5_config::encoder_sequence,
                              &t5_config::decoder_sequence,
                              &t5_config::positions,
                              &t5_config::vocabulary,
                              &t5_config::padded_vocabulary,
                              &t5_config::extra_ids})
      x.*member = y.*member;
    for (const auto member :
         {&t5_config::hidden_dropout, &t5_config::attention_dropout, &t5_config::init_std})
      x.*member = y.*member;
    x.last_dropout = y.last_dropout;
    x.init_by_width = y.init_by_width;
    x.masking = y.masking;
    return x == y;
  }

  std::int64_t longest(const model_description& model) const override {
    return model.as<t5_config>().encoder_sequence;
  }

 private:
  /// `ours` ends with the layer's number, `theirs` with "layer".
  static void add_layer(recipe_book& to,
                        const t5_config& c,
                        const std::string& ours,
                        const std::string& theirs,
                        bool decoder,
                        bool has_biases) {
    const auto C = c.hidden, A = c.attention_width();
    int part = 0;
    const auto norm = [&](const char* name) {
      to.copy(ours + name + ".weight",
              fmt::format("{}{}.layer_norm.weight", theirs, part),
              C,
              recipe_book::vector);
    };
    const auto attention = fmt::format("{}{}.SelfAttention.", theirs, part);
    norm("input_layernorm");
    to.add(ours + "self_attention.linear_qkv.weight",
           3 * A,
           C,
           fused_qkv({attention + "q.weight", attention + "k.weight", attention + "v.weight"},
                     c.heads,
                     c.heads,
                     c.head_size));
    if (has_biases)
      to.copy(ours + "self_attention.relative_attention_bias.weight",
              attention + "relative_attention_bias.weight",
              c.buckets,
              c.heads);
    to.copy(ours + "self_attention.linear_proj.weight", attention + "o.weight", C, A);
    ++part;
    if (decoder) {
      const auto cross = fmt::format("{}{}.EncDecAttention.", theirs, part);
      norm("pre_cross_attn_layernorm");
      to.copy(ours + "cross_attention.linear_q.weight", cross + "q.weight", A, C);
      std::vector<hub_rows> pairs;
      for (std::int64_t head = 0; head < c.heads; ++head)
        for (const auto* name : {"k.weight", "v.weight"})
          pairs.push_back({cross + name, head * c.head_size, c.head_size, A});
      to.add(ours + "cross_attention.linear_kv.weight", 2 * A, C, std::move(pairs));
      to.copy(ours + "cross_attention.linear_proj.weight", cross + "o.weight", C, A);
      ++part;
    }
    const auto dense = fmt::format("{}{}.DenseReluDense.", theirs, part);
    norm("pre_mlp_layernorm");
    if (activation_of(c).gated)
      to.add(ours + "mlp.linear_fc1.weight",
             2 * c.ffn,
             C,
             {{dense + "wi_0.weight", 0, c.ffn, c.ffn}, {dense + "wi_1.weight", 0, c.ffn, c.ffn}});
    else
      to.copy(ours + "mlp.linear_fc1.weight", dense + "wi.weight", c.ffn, C);
    to.copy(ours + "mlp.linear_fc2.weight", dense + "wo.weight", C, c.ffn);
  }
};

}  // namespace

const hub_translation& t5_hub() {
  static const t5_translation only;
  return only;
}

}  // namespace troupe::runtime

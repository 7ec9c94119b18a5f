#include "runtime/core/json_text.hpp"
#include "runtime/family/hub_contradictions.hpp"
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

std::vector<hub_name> names_of(const t5_config& c) {
  std::vector<hub_name> out
      = {{"embedding.word_embeddings", {"shared"}}, {"output_layer", {"lm_head"}}};
  for (const std::string stack : {"encoder", "decoder"}) {
    out.push_back({stack + ".final_layernorm", {stack + ".final_layer_norm"}});
    const auto ours = stack + ".layers.{}.";
    const auto part
        = [&](int number) { return fmt::format("{}.block.{{}}.layer.{}.", stack, number); };
    const auto attention = part(0) + "SelfAttention.";
    out.push_back({ours + "input_layernorm", {part(0) + "layer_norm"}});
    out.push_back({ours + "self_attention.linear_qkv",
                   {attention + "q", attention + "k", attention + "v"},
                   c.heads});
    out.push_back(
        {ours + "self_attention.relative_attention_bias", {attention + "relative_attention_bias"}});
    out.push_back({ours + "self_attention.linear_proj", {attention + "o"}});
    const auto cross = part(1) + "EncDecAttention.";
    out.push_back({ours + "pre_cross_attn_layernorm", {part(1) + "layer_norm"}});
    out.push_back({ours + "cross_attention.linear_q", {cross + "q"}});
    out.push_back({ours + "cross_attention.linear_kv", {cross + "k", cross + "v"}, c.heads});
    out.push_back({ours + "cross_attention.linear_proj", {cross + "o"}});
    const auto last = part(stack == "decoder" ? 2 : 1), dense = last + "DenseReluDense.";
    out.push_back({ours + "pre_mlp_layernorm", {last + "layer_norm"}});
    out.push_back({ours + "mlp.linear_fc1",
                   activation_of(c).gated ? std::vector{dense + "wi_0", dense + "wi_1"}
                                          : std::vector{dense + "wi"}});
    out.push_back({ours + "mlp.linear_fc2", {dense + "wo"}});
  }
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
    return recipes_by_name(model.spec(), names_of(model.as<t5_config>()));
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
    return differ_in_training(there.as<t5_config>(),
                              here.as<t5_config>(),
                              &t5_config::positions,
                              &t5_config::vocabulary,
                              &t5_config::extra_ids);
  }

  std::int64_t longest(const model_description& model) const override {
    return model.as<t5_config>().encoder_sequence;
  }
};

}  // namespace

const hub_translation& t5_hub() {
  static const t5_translation only;
  return only;
}

}  // namespace troupe::runtime

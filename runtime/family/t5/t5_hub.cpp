#include "runtime/core/json_text.hpp"
#include "runtime/family/gated_activation.hpp"
#include "runtime/family/hub_contradictions.hpp"
#include "runtime/family/hub_fields.hpp"
#include "runtime/family/recipe_book.hpp"
#include "runtime/family/t5/t5.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace troupe::runtime {
namespace {

/// "feed_forward_proj", and our activation. transformers reads "gated-gelu" as the tanh formula.
using named_projection = std::pair<std::string_view, std::string_view>;
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

std::vector<hub_name> names_of(const t5_config& c) {
  std::vector<hub_name> out
      = {{"embedding.word_embeddings", {"shared"}}, {"output_layer", {"lm_head"}}};
  for (const std::string stack : {"encoder", "decoder"}) {
    out.push_back({stack + ".final_layernorm", {stack + ".final_layer_norm"}});
    int number = 0;  // of a part of a layer
    std::string part;
    const auto begin = [&](const char* norm) {
      part = fmt::format("{}.block.{{}}.layer.{}.", stack, number++);
      out.push_back({stack + ".layers.{}." + norm, {part + "layer_norm"}});
    };
    const auto add
        = [&](const char* ours, std::vector<std::string> theirs, std::int64_t groups = 1) {
            for (auto& name : theirs)
              name.insert(0, part);
            out.push_back({stack + ".layers.{}." + ours, std::move(theirs), groups});
          };
    begin("input_layernorm");
    add("self_attention.linear_qkv",
        {"SelfAttention.q", "SelfAttention.k", "SelfAttention.v"},
        c.heads);
    add("self_attention.relative_attention_bias", {"SelfAttention.relative_attention_bias"});
    add("self_attention.linear_proj", {"SelfAttention.o"});
    if (stack == "decoder") {
      begin("pre_cross_attn_layernorm");
      add("cross_attention.linear_q", {"EncDecAttention.q"});
      add("cross_attention.linear_kv", {"EncDecAttention.k", "EncDecAttention.v"}, c.heads);
      add("cross_attention.linear_proj", {"EncDecAttention.o"});
    }
    begin("pre_mlp_layernorm");
    if (activation_named(c.activation).gated)
      add("mlp.linear_fc1", {"DenseReluDense.wi_0", "DenseReluDense.wi_1"});
    else
      add("mlp.linear_fc1", {"DenseReluDense.wi"});
    add("mlp.linear_fc2", {"DenseReluDense.wo"});
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
    const auto* const projection = std::ranges::find(projections, kind, &named_projection::first);
    if (projection == std::end(projections))
      in.refuse("feed_forward_proj",
                "relu, gelu, gelu_new, silu, relu2, or gated- and one of them");
    const bool tied = in.flag("tie_word_embeddings", true);
    auto out = t5_form(tied ? "v1.0" : "v1.1");
    out.head_scaled = in.flag("scale_decoder_outputs", tied);  // files of transformers 5
    out.activation = projection->second;
    out.encoder_layers = in.size("num_layers", 6);
    out.decoder_layers = in.size("num_decoder_layers", out.encoder_layers);
    out.hidden = in.size("d_model", 512);
    out.heads = in.size("num_heads", 8);
    out.head_size = in.size("d_kv", 64);
    out.ffn = in.size("d_ff", 2048);
    // Relative positions have no limit; 512 is that of T5's own models.
    out.encoder_sequence = out.decoder_sequence = in.size("n_positions", 512);
    out.vocabulary = out.padded_vocabulary = in.size("vocab_size", 32128);
    out.decoder_start = in.size("decoder_start_token_id", in.size("pad_token_id", 0, 0), 0);
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
    hub_rules rules;
    rules.must(x.is_relative(), "`model.position` relative");
    rules.must(x.normalization == "RMSNorm", "`model.normalization` RMSNorm");
    rules.must(!x.linear_bias, "`model.linear_bias=false`");
    rules.must(!x.head_bias && !x.scores_scaled, "`model.form` v1.0 or v1.1");
    rules.require("This model is exported as T5");
    const auto* const projection
        = std::ranges::find(projections, x.activation, &named_projection::second);
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
           {"feed_forward_proj", projection->first},
           {"layer_norm_epsilon", x.norm_epsilon},
           {"dropout_rate", x.hidden_dropout},
           {"initializer_factor", 1.0},
           {"tie_word_embeddings", x.tied_embeddings},
           {"scale_decoder_outputs", x.head_scaled},
           {"decoder_start_token_id", std::max<std::int64_t>(x.decoder_start, 0)},
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
    const bool is_table
        = source == "encoder.embed_tokens.weight" || source == "decoder.embed_tokens.weight";
    const bool is_head = source == "lm_head.weight" && all.back().name != "output_layer.weight";
    return is_table || is_head ? "shared.weight" : "";
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

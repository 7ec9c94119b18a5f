#include "runtime/core/counted.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/data/masking_tokens.hpp"
#include "runtime/family/spec_outline.hpp"
#include "runtime/family/t5/t5.hpp"
#include "runtime/family/typed_family.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

class t5 final : public typed_family<t5_config, t5_asked> {
 public:
  std::string_view name() const override { return "t5"; }
  std::string_view title() const override { return "a T5"; }

  /// Relative biases, a scaled tied output layer, and a longer encoder.
  model_description smallest(int layers) const override {
    auto out = of_smallest_sizes(t5_form("v1.0"));
    out.encoder_layers = std::max(layers / 2, 1);
    out.decoder_layers = std::max<std::int64_t>(layers - out.encoder_layers, 1);
    out.head_size = 8;
    out.encoder_sequence = 8;
    out.decoder_sequence = 6;
    out.buckets = 8;
    out.most_distance = 6;
    return out;
  }

  model_spec spec(const model_description& model, const extension& own) const override {
    return t5_spec(config_of(model), own);
  }

  model_sizes sizes(const model_description& model) const override {
    const auto& x = config_of(model);
    const auto layers = x.encoder_layers + x.decoder_layers;
    return {
        x.decoder_sequence, x.vocabulary, x.padded_vocabulary, layers, "model.decoder_sequence"};
  }

  std::int64_t extra_tokens(const model_description& model) const override {
    return config_of(model).extra_ids;
  }
  std::string essence(const model_description& model) const override {
    auto out = function_of(model);
    if (config_of(model).is_relative())
      out.erase("positions");
    return json_text(out);
  }

  std::vector<shared_size> shared_by_tensor_ranks(const model_description& model) const override {
    return usual_shares(config_of(model), 0);
  }
  std::string describe(const model_description& model, const extension& /*own*/) const override {
    const auto& x = config_of(model);
    const auto positions
        = x.is_relative()
              ? fmt::format("relative positions ({} buckets up to {})", x.buckets, x.most_distance)
              : fmt::format("{} learned positions", x.positions);
    return fmt::format(
        "model       encoder of {} and {}, decoder of {} and {}, C {}, {} of {}, feed-forward {}\n"
        "            {}, {}, {}, {} biases, {} embeddings{}{}, dropout {} / {}\n"
        "            vocabulary {}{} padded to {}; {} parameters\n",
        counted(x.encoder_layers, "layer"),
        counted(x.encoder_sequence, "token"),
        counted(x.decoder_layers, "layer"),
        counted(x.decoder_sequence, "token"),
        x.hidden,
        counted(x.heads, "head"),
        x.head_size,
        x.ffn,
        positions,
        x.normalization,
        x.activation,
        x.linear_bias ? "with" : "no",
        x.tied_embeddings ? "tied" : "untied",
        x.head_scaled ? " scaled in the output layer" : "",
        x.scores_scaled ? "" : ", scores without a scale",
        x.hidden_dropout,
        x.attention_dropout,
        x.vocabulary,
        x.extra_ids > 0 ? fmt::format(" with {} sentinels", x.extra_ids) : "",
        x.padded_vocabulary,
        runtime::parameter_count(model));
  }

  const family_samples& samples() const override { return t5_samples(); }
  std::optional<given_text> text_before(const model_description& model,
                                        const tokenizer& text) const override {
    const auto& x = config_of(model);
    const auto tokens = span_tokens_of(text, x.extra_ids, x.decoder_start);
    return given_text{.tokens = "encoder_tokens",
                      .positions = "encoder_positions",
                      .after = text.frame().after,
                      .first = {tokens.begin},
                      .end = tokens.end};
  }
  const hub_translation* hub() const override { return &t5_hub(); }

  std::optional<model_outline> outline(const model_description& model) const override {
    const auto& x = config_of(model);
    return outline_of(t5_spec(x), t5_schema(x), has_dropout(model));
  }

  std::vector<setting_group> groups() const override {
    return {
        {"Model: its shape",
         "model.layers model.encoder_layers model.decoder_layers model.hidden model.heads "
         "model.ffn model.head_size model.sequence model.encoder_sequence model.decoder_sequence "
         "model.positions model.vocabulary_divisor model.extra_ids model.decoder_start "
         "checkpoints.load_hub"},
        {"Model: its layers", "model.form model.position model.*"}};
  }
  std::vector<required_setting> required() const override {
    return {{"model.layers", "2", "model.encoder_layers"},
            {"model.hidden", "64"},
            {"model.heads", "4"},
            {"model.sequence", "64", "model.encoder_sequence"},
            {"model.decoder_sequence", "32"}};
  }
};

}  // namespace

const model_family& t5_family() {
  static const t5 only;
  return only;
}

const model_family& family_of(const t5_config& /*config*/) {
  return t5_family();
}

}  // namespace troupe::runtime

#include "runtime/data/masked_spans.hpp"
#include "runtime/data/token_schema.hpp"
#include "runtime/family/made_up_texts.hpp"
#include "runtime/family/masked_samples.hpp"
#include "runtime/family/t5/t5.hpp"

namespace troupe::runtime {
namespace {

class samples_of_t5 final : public family_samples {
 public:
  batch_schema schema(const model_description& model,
                      const data_settings& /*data*/) const override {
    return t5_schema(model.as<t5_config>());
  }
  bool follows(std::string_view /*setting*/) const override { return false; }
  bool splits_documents() const override { return true; }
  std::shared_ptr<const sample_dataset> open(const model_description& model,
                                             const samples_request& from) const override {
    const auto& config = model.as<t5_config>();
    if (from.prefix)
      return open_masked<masked_spans>(from, config, t5_schema(config), [&config](const auto& by) {
        return span_tokens_of(by, config.extra_ids, config.decoder_start);
      });
    return reversed_texts(t5_schema(config), config.vocabulary, from);
  }
  std::vector<std::string> validate(const model_description& model,
                                    const data_settings& data,
                                    const std::string& tokenizer) const override {
    const auto& config = model.as<t5_config>();
    return validate_masking_tokens(data, tokenizer, [&config](const auto& by) {
      require_sentinels(span_tokens_of(by, config.extra_ids, config.decoder_start),
                        config.encoder_sequence,
                        config.masking.probability);
      require_masks(config.encoder_sequence - masked_spans::kept_free, config.masking.probability);
    });
  }
};

}  // namespace

batch_schema t5_schema(const t5_config& config) {
  auto out = token_schema(config.decoder_sequence, true);
  for (const auto* name : {"encoder_tokens", "encoder_positions"})
    out.tensors.push_back(
        {.name = name, .type = dtype::i32, .extents = {config.encoder_sequence}, .rows = 0});
  out.more_documents = {{"encoder_documents", "encoder_tokens"}};
  return out;
}

const family_samples& t5_samples() {
  static const samples_of_t5 only;
  return only;
}

}  // namespace troupe::runtime

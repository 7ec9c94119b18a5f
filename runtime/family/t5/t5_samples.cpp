#include "runtime/family/t5/t5_samples.hpp"

#include "runtime/data/masked_spans.hpp"
#include "runtime/data/token_schema.hpp"
#include "runtime/family/masked_samples.hpp"

#include <algorithm>
#include <memory>
#include <numeric>

namespace troupe::runtime {
namespace {

constexpr std::int64_t of_lengths = 1 << 30;  // random numbers that no token has

/// Made-up samples, something to learn: the decoder's text repeats the encoder's in reverse, so it
/// needs cross-attention. The encoder's text has half to all of its rows, the decoder's as many as
/// it has room for; the rest is padding.
class reversed_texts final : public made_up_texts {
 public:
  reversed_texts(const t5_config& of, const samples_request& from) : made_up_texts(from), of_(of) {}

  batch_schema schema() const override { return t5_schema(of_); }

  void fill(std::uint64_t i, const sample_view& out) const override {
    const auto key = key_of(i);
    const auto text = out.at<std::int32_t>("encoder_tokens");
    const auto length = std::int64_t(text.size());
    const auto used = length - below(key, of_lengths, (length + 1) / 2);
    for (std::int64_t t = 0; t < length; ++t)
      text[std::size_t(t)] = t < used ? std::int32_t(below(key, t, of_.vocabulary)) : 0;
    const auto positions = out.at<std::int32_t>("encoder_positions");
    std::iota(positions.begin(), positions.end(), 0);
    const token_row row(out);
    const auto T = std::int64_t(row.tokens.size()), said = std::min(used, T);
    for (std::int64_t t = 0; t < T; ++t) {
      const auto at = std::size_t(t);
      row.labels[at] = t < said ? text[std::size_t(used - 1 - t)] : 0;
      row.tokens[at] = t > 0 && t < said ? row.labels[at - 1] : 0;
      row.mask[at] = t < said ? 1.0F : 0.0F;
      row.positions[at] = std::int32_t(t);
    }
    out.cut(used, "encoder_documents");
    out.cut(said);
  }

 private:
  t5_config of_;
};

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
        return span_tokens_of(by, config.extra_ids);
      });
    return std::make_shared<reversed_texts>(config, from);
  }
  std::vector<std::string> validate(const model_description& model,
                                    const data_settings& data,
                                    const std::string& tokenizer) const override {
    const auto& config = model.as<t5_config>();
    return validate_masking_tokens(data, tokenizer, [&config](const auto& by) {
      require_sentinels(span_tokens_of(by, config.extra_ids),
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

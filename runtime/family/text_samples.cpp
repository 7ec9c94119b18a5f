#include "runtime/family/text_samples.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/log.hpp"
#include "runtime/data/gpt_dataset.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/data/mock_dataset.hpp"
#include "runtime/data/sft_dataset.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace troupe::runtime {
namespace {

std::shared_ptr<const sft_dataset> open_conversations(const model_description& model,
                                                      const samples_request& from,
                                                      const std::filesystem::path& prefix) {
  return std::make_shared<sft_dataset>(
      std::make_shared<conversation_source>(prefix, objects_of(from.data)),
      split_for(from.data, from.part),
      from.part,
      sft_dataset_options{.sequence_length = model.sequence(),
                          .samples = from.samples,
                          .seed = std::uint32_t(from.seed),
                          .vocabulary = model.vocabulary(),
                          .stop = from.stop});
}

/// "; 3 conversations are longer than 64 tokens and cut there"
std::string cut_text(const data_settings& data, std::int64_t length) {
  std::int64_t cut = 0, lost = 0;
  for (const auto& prefix : prefixes_of(data)) {
    const conversation_source source(prefix, objects_of(data));
    for (std::int64_t i = 0; i < source.tokens().sequences(); ++i)
      if (source.tokens().length(i) > length) {
        ++cut;
        lost += has_label(source, i, length) ? 0 : 1;
      }
  }
  if (lost > 0)
    log_warning(
        "{} whole answer beyond the first {} and {} nothing: give a longer `model.sequence`",
        counted(lost, "conversation has its", "conversations have their"),
        counted(length, "token"),
        lost == 1 ? "teaches" : "teach");
  return cut > 0 ? fmt::format("; {} longer than {} and cut there",
                               counted(cut, "conversation is", "conversations are"),
                               counted(length, "token"))
                 : "";
}

/// Tokens of the samples of one epoch of conversations.
struct packed_tokens {
  std::int64_t all = 0, padding = 0;
};

packed_tokens packed_epoch(const model_description& model, const samples_request& of) {
  packed_tokens out;
  auto epoch = of;
  epoch.samples = {};
  for (const auto& prefix : blend_for(of.data, of.part).prefixes) {
    const auto set = open_conversations(model, epoch, prefix);
    out.padding += set->padding();
    out.all += std::int64_t(set->size()) * set->sequence_length();
  }
  return out;
}

/// "; of the samples of an epoch 4.2 % is padding"
std::string padding_text(const packed_tokens& x) {
  return fmt::format("; of the samples of an epoch {:.1f} % is padding",
                     100 * double(x.padding) / double(std::max<std::int64_t>(x.all, 1)));
}

class samples_of_text final : public family_samples {
 public:
  batch_schema schema(const model_description& model, const data_settings& data) const override {
    return token_schema(model.sequence(), data.sft || data.reset_attention_mask);
  }

  bool follows(std::string_view /*setting*/) const override { return true; }

  std::shared_ptr<const sample_dataset> open(const model_description& model,
                                             const samples_request& from) const override {
    const auto& data = from.data;
    if (data.sft && from.prefix)
      return open_conversations(model, from, *from.prefix);
    return std::make_shared<gpt_dataset>(
        from.prefix ? std::make_shared<indexed_dataset>(*from.prefix, objects_of(data))
                    : made_up_documents(model, data),
        split_for(data, from.part),
        from.part,
        gpt_dataset_options{.sequence_length = model.sequence(),
                            .samples = from.samples,
                            .seed = std::uint32_t(from.seed),
                            .vocabulary = model.vocabulary(),
                            .end_of_document = data.end_of_document,
                            .eod_mask_loss = data.eod_mask_loss,
                            .reset_position_ids = data.reset_position_ids,
                            .reset_attention_mask = data.reset_attention_mask,
                            .cache = data.cache,
                            .fim = from.fim,
                            .stop = from.stop});
  }

  std::vector<std::string> validate(const model_description& /*model*/,
                                    const data_settings& data,
                                    const std::string& /*tokenizer*/) const override {
    if (data.end_of_document >= 0
        || !(data.mock || data.eod_mask_loss || data.reset_position_ids
             || data.reset_attention_mask))
      return {};
    return {
        "`data.mock`, `data.eod_mask_loss`, `data.reset_position_ids` and "
        "`data.reset_attention_mask` need a token that ends documents, and the tokenizer names "
        "none: put a tokenizer_config.json with its \"eos_token\" beside its tokenizer.json"};
  }

  std::shared_ptr<const token_source> made_up_documents(const model_description& model,
                                                        const data_settings& data) const override {
    return std::make_shared<mock_dataset>(model.vocabulary(), data.end_of_document);
  }

  samples_text describe(const model_description& model,
                        const samples_request& all,
                        std::int64_t tokens) const override {
    const auto length = model.sequence();
    const auto samples = all.samples.value_or(0);
    const auto packed = all.data.sft ? packed_epoch(model, all) : packed_tokens{.all = tokens};
    return {.before = fmt::format(
                "{} of {}: {:.3g} epochs of ",
                counted(std::int64_t(samples), "training sample"),
                counted(length, "token"),
                double(samples) * double(length) / double(std::max<std::int64_t>(packed.all, 1))),
            .after = all.data.sft ? cut_text(all.data, length) + padding_text(packed) : ""};
  }
};

}  // namespace

const family_samples& text_samples() {
  static const samples_of_text only;
  return only;
}

}  // namespace troupe::runtime

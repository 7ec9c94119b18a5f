#include "runtime/data/masked_pairs.hpp"
#include "runtime/data/token_schema.hpp"
#include "runtime/family/bert/bert.hpp"
#include "runtime/family/made_up_texts.hpp"
#include "runtime/family/masked_samples.hpp"
#include "runtime/family/tasks.hpp"

namespace troupe::runtime {
namespace {

class samples_of_sentences final : public samples_with_tasks<bert_config> {
 public:
  batch_schema schema(const model_description& model,
                      const data_settings& /*data*/) const override {
    return bert_schema(model.as<bert_config>());
  }

  bool follows(std::string_view /*setting*/) const override { return false; }
  bool splits_documents() const override { return true; }

  std::shared_ptr<const sample_dataset> open(const model_description& model,
                                             const samples_request& from) const override {
    const auto& config = model.as<bert_config>();
    if (config.task.is_on())
      return open_task(config, from);
    if (from.prefix)
      return open_masked<masked_pairs>(from, config, bert_schema(config), pair_tokens_of);
    return made_up_sentences(bert_schema(config), config.vocabulary, from);
  }

  std::vector<std::string> validate(const model_description& model,
                                    const data_settings& data,
                                    const std::string& tokenizer) const override {
    const auto& config = model.as<bert_config>();
    if (config.task.is_on())
      return wrong_with_task(config, tokenizer);
    return validate_masking_tokens(data, tokenizer, [&](const auto& by) {
      pair_tokens_of(by);
      require_masks(config.sequence - masked_pairs::added, config.masking.probability);
    });
  }
};

}  // namespace

batch_schema bert_schema(const bert_config& config) {
  if (config.task.is_on())
    return task_schema(config);
  auto out = token_schema(config.sequence, true);
  if (config.types > 0)
    out.tensors.push_back(
        {.name = "types", .type = dtype::i32, .extents = {config.sequence}, .rows = 0});
  if (config.binary_head)
    out.tensors.push_back({.name = "is_random", .type = dtype::i32, .extents = {1}});
  return out;
}

const family_samples& bert_samples() {
  static const samples_of_sentences only;
  return only;
}

}  // namespace troupe::runtime

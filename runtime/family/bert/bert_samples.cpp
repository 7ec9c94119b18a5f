#include "runtime/data/masked_pairs.hpp"
#include "runtime/data/task_files.hpp"
#include "runtime/data/token_schema.hpp"
#include "runtime/family/bert/bert.hpp"
#include "runtime/family/bert/bert_task.hpp"
#include "runtime/family/masked_samples.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

/// Words that count in steps, so that sentences and their order can be predicted. They have up to T
/// tokens, of which 15 % and at least one are masked as in BERT.
class made_up_sentences final : public made_up_texts {
 public:
  made_up_sentences(const bert_config& of, const samples_request& from)
      : made_up_texts(from), of_(of) {}

  batch_schema schema() const override { return bert_schema(of_); }

  void fill(std::uint64_t i, const sample_view& out) const override {
    const auto key = key_of(i);
    const std::int64_t T = of_.sequence, ends = of_.binary_head ? 3 : 2;  // [CLS] and [SEP]s
    const auto n = below(key, 0, T / 2 + 1) + (T + 1) / 2;                // real tokens
    const auto words = std::max(n, ends + 2) - ends;
    const auto first = of_.binary_head ? 1 + below(key, 1, words - 1) : words;  // words of A
    const bool swapped = of_.binary_head && uniform(key, 2) < 0.5;
    const token_row row(out);
    std::ranges::fill(row.tokens, 0);
    std::ranges::fill(row.labels, 0);
    std::ranges::fill(row.mask, 0.0F);
    for (std::int64_t t = 0; t < T; ++t)
      row.positions[std::size_t(t)] = std::int32_t(t);
    const auto start = below(key, 3, kinds()), step = 1 + below(key, 4, 3);
    const auto certain = below(key, 5, words);  // is masked in any case
    std::size_t at = 0;
    row.tokens[at++] = begin;
    for (std::int64_t w = 0; w < words; ++w) {
      if (w == first)
        row.tokens[at++] = separator;
      const auto place = !swapped ? w : w < first ? words - first + w : w - first;
      const auto word = std::int32_t(special + (start + place * step) % kinds());
      const auto draw = uniform(key, std::uint64_t(10 + 2 * w));
      row.tokens[at] = word;
      if (draw < 0.15 || w == certain) {
        row.labels[at] = word;
        row.mask[at] = 1;
        const auto kind = uniform(key, std::uint64_t(11 + 2 * w));
        if (kind < 0.8)
          row.tokens[at] = masked;
        else if (kind >= 0.9)
          row.tokens[at] = std::int32_t(special + below(key, 10 + 2 * words + w, kinds()));
      }
      ++at;
    }
    row.tokens[at++] = separator;
    if (at < std::size_t(T))
      out.cut(std::int64_t(at));
    if (of_.types > 0) {
      const auto types = out.at<std::int32_t>("types");
      const auto second = std::size_t(of_.binary_head ? first + 2 : T);
      for (std::size_t t = 0; t < types.size(); ++t)
        types[t] = second <= t && t < at ? 1 : 0;
    }
    if (of_.binary_head)
      out.at<std::int32_t>("is_random").front() = swapped ? 1 : 0;
  }

 private:
  static constexpr std::int32_t begin = 0, separator = 1, masked = 2;
  static constexpr std::int64_t special = 3;

  std::int64_t kinds() const { return of_.vocabulary - special; }

  bert_config of_;
};

class samples_of_sentences final : public family_samples {
 public:
  batch_schema schema(const model_description& model,
                      const data_settings& /*data*/) const override {
    return bert_schema(model.as<bert_config>());
  }

  std::vector<std::string> files(const model_description& model, data_split part) const override {
    const auto& task = model.as<bert_config>().task;
    return part == data_split::train   ? task_files(task, task.train)
           : part == data_split::valid ? task_files(task, task.valid)
                                       : std::vector<std::string>();
  }

  std::int64_t epochs(const model_description& model) const override {
    return model.as<bert_config>().task.epochs;
  }

  std::uint64_t samples_in_files(const model_description& model, data_split part) const override {
    return read_task(model.as<bert_config>().task, files(model, part)).size();
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
    return std::make_shared<made_up_sentences>(config, from);
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

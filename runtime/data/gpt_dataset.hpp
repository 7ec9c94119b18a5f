// A data set of samples for a causal language model: Megatron's GPTDataset.

#pragma once

#include "runtime/data/fill_in_middle.hpp"
#include "runtime/data/gpt_index.hpp"
#include "runtime/data/sample_dataset.hpp"
#include "runtime/data/token_schema.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

namespace troupe::runtime {

struct gpt_dataset_options {
  std::int64_t sequence_length = 0;           ///< S
  std::optional<std::uint64_t> samples = {};  ///< minimum; nullopt: one epoch
  std::uint32_t seed = 1234;
  std::int64_t vocabulary = 0;                      ///< ids must be below it
  std::int32_t end_of_document = 0;                 ///< -1: no token ends documents
  bool eod_mask_loss = false;                       ///< no loss where the input ends a document
  bool reset_position_ids = false;                  ///< positions start again after each end
  bool reset_attention_mask = false;                ///< attention is cut after each end
  bool drop_last_partial_validation = true;         ///< false: the last sample is padded
  std::optional<std::filesystem::path> cache = {};  ///< folder; nullopt: index in memory only
  std::shared_ptr<const fill_in_middle> fim = {};   ///< transforms samples; null: unchanged
  cancel_token stop = {};                           ///< checked while the index is built
};

/// Immutable; any number of threads may read samples at once. Sample i depends only on the source,
/// the split and the options.
class gpt_dataset final : public sample_dataset {
 public:
  /// Uses the part of `source` that `split` assigns to `part`. Throws input_error when that part
  /// has no tokens or the options are invalid, and `cancelled`.
  gpt_dataset(std::shared_ptr<const token_source> source,
              const split_matrix& split,
              data_split part,
              const gpt_dataset_options& options);

  std::uint64_t size() const override { return static_cast<std::uint64_t>(plan_.samples); }
  std::int64_t sequence_length() const { return options_.sequence_length; }
  batch_schema schema() const override {
    return token_schema(options_.sequence_length, options_.reset_attention_mask);
  }
  const gpt_index_plan& plan() const { return plan_; }
  const gpt_index& index() const { return index_; }

  /// Writes the S + 1 tokens of sample i; `padding` after the end of the data. Returns the number
  /// of tokens before the padding (of the data or of `fim`). Throws input_error when i >= size(),
  /// an id is outside the vocabulary, or a cached index points outside the data.
  std::size_t sample(std::uint64_t i, std::span<std::int32_t> text) const;

  /// Sample i as inputs, labels, loss mask and positions. The mask is 0 where the label is padding;
  /// padding is written as token 0.
  void fill(std::uint64_t i, const sample_view& out) const override;
  void expect(std::uint64_t i) const override;

  static constexpr std::int32_t padding = -1;

 private:
  void check_ids(std::span<const std::int32_t> ids,
                 std::int64_t sequence,
                 std::int64_t offset) const;

  /// A sample's range: from token `offset` of the stream's document `document` up to, excluding,
  /// token `end` of document `last`.
  struct stretch {
    std::int64_t document, offset, last, end;
  };
  stretch stretch_of(std::uint64_t sample) const;

  /// Calls visit(sequence, offset, tokens) for each part of sample i, in order; the parts have at
  /// most S + 1 tokens in total. Throws like `sample`.
  template <class Visit>
  void each_part(std::uint64_t i, const Visit& visit) const;
  [[noreturn]] void refuse_index(std::uint64_t sample) const;

  std::shared_ptr<const token_source> source_;
  gpt_dataset_options options_;
  data_split part_;
  gpt_index_plan plan_;
  gpt_index index_;
};

}  // namespace troupe::runtime

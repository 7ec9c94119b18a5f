// Samples of BERT: two halves of a text, A and B, with masked words. They equal those of
// megatron-core's BERTMaskedWordPieceDataset.
//
//   tokens     (S) i32   [CLS] A [SEP] B [SEP], masked; without pairs [CLS] A [SEP]
//   types      (S) i32   0 for A, 1 for B and the separator after it; if the schema has it
//   labels     (S) i32   the token to predict where mask is 1, else 0
//   mask       (S) f32   1 where the label counts in the loss
//   positions  (S) i32   0, 1, ...
//   is_random  (1) i32   1 if A and B were exchanged; pairs only
//
// Padding after the text is 0, and a document of its own, so that attention sees none of it:
// "documents" divides "tokens". megatron-core also hides random tokens with the id of [PAD].

#pragma once

#include "runtime/data/masked_dataset.hpp"

namespace troupe::runtime {

struct masked_pair_tokens {
  std::int32_t classify = -1, separator = -1, mask = -1;
};

class masked_pairs final : public masked_dataset {
 public:
  /// [CLS] and two [SEP]; without pairs one [SEP] less is used.
  static constexpr std::int64_t added = 3;

  /// About 8 of 10 masked tokens become `mask`, one a random id of the vocabulary, and one stays.
  /// If the schema has "is_random", samples have two halves, exchanged with probability 1/2. Throws
  /// input_error.
  masked_pairs(std::shared_ptr<const document_source> source,
               const split_matrix& split,
               data_split part,
               masked_dataset_options options,
               masked_pair_tokens tokens,
               batch_schema schema);

  batch_schema schema() const override { return schema_; }
  void fill(std::uint64_t i, const sample_view& out) const override;

 private:
  masked_pair_tokens tokens_;
  batch_schema schema_;
  bool has_types_, has_pairs_;
};

}  // namespace troupe::runtime

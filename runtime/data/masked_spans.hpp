// Samples of T5: a text in which sentinels replace spans, and the spans. They equal those of
// megatron-core's T5MaskedWordPieceDataset. The k-th span has the k-th sentinel. Spans at the end
// that do not fit into the decoder's text stay in the encoder's; megatron-core stops with an error
// there.
//
//   encoder_tokens     (E) i32   the text, with a sentinel for each span
//   encoder_positions  (E) i32   0, 1, ...
//   tokens             (D) i32   begin, then each sentinel and its span
//   positions          (D) i32   0, 1, ...
//   labels             (D) i32   each sentinel and its span, then end
//   mask               (D) f32   1 for these tokens
//
// Padding is 0 in all tensors, and a document of its own: "documents" divides "tokens", and
// "encoder_documents" divides "encoder_tokens".

#pragma once

#include "runtime/data/masked_dataset.hpp"

namespace troupe::runtime {

struct masked_span_tokens {
  std::int32_t begin = -1, end = -1;    ///< of the decoder's texts
  std::vector<std::int32_t> sentinels;  ///< in the order of their use
};

/// Throws input_error if a text of an encoder of `rows` rows may need more sentinels.
void require_sentinels(const masked_span_tokens& tokens, std::int64_t rows, double probability);

class masked_spans final : public masked_dataset {
 public:
  /// megatron-core leaves room for two tokens of the encoder.
  static constexpr std::int64_t kept_free = 2;

  /// Throws input_error, also if a sample may need more sentinels than there are, or if D < 3.
  masked_spans(std::shared_ptr<const document_source> source,
               const split_matrix& split,
               data_split part,
               masked_dataset_options options,
               masked_span_tokens tokens,
               batch_schema schema);

  batch_schema schema() const override { return schema_; }
  void fill(std::uint64_t i, const sample_view& out) const override;

 private:
  masked_span_tokens tokens_;
  batch_schema schema_;
};

}  // namespace troupe::runtime

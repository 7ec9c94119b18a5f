// Samples for supervised fine-tuning: conversations packed into sequences, loss on answers only.
//
// Epoch e takes all conversations in an order shuffled by numpy's RandomState(seed + e). One after
// the other they are laid into the sample, whole; the one that does not fit begins the next sample,
// across the ends of epochs. A conversation longer than S keeps its first S tokens. Positions begin
// again and attention ends at each conversation, and at the padding that fills a sample up.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/data/conversation_files.hpp"
#include "runtime/data/sample_dataset.hpp"
#include "runtime/data/split.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace troupe::runtime {

struct sft_dataset_options {
  std::int64_t sequence_length = 0;           ///< S
  std::optional<std::uint64_t> samples = {};  ///< at least so many; none: one epoch
  std::uint32_t seed = 1234;
  std::int64_t vocabulary = 0;  ///< ids must be below it
  cancel_token stop = {};       ///< looked at while the order is made
};

/// Whether a token of an answer is the label of one of the first `length` tokens.
bool has_label(const conversation_source& source, std::int64_t conversation, std::int64_t length);

/// Immutable; any number of threads may read at once. What sample i is depends on the source, the
/// split, S and the seed alone, not on how many samples were asked for. Memory: 4 bytes a
/// conversation and epoch, 8 a sample.
class sft_dataset final : public sample_dataset {
 public:
  /// The conversations that `split` gives to `part`. Throws input_error when there are none, and
  /// when none of them has a label.
  sft_dataset(std::shared_ptr<const conversation_source> source,
              const split_matrix& split,
              data_split part,
              const sft_dataset_options& options);

  std::uint64_t size() const override { return starts_.size() - 1; }
  std::int64_t sequence_length() const override { return options_.sequence_length; }
  bool cuts_attention() const override { return true; }

  /// Tokens of all samples that are padding.
  std::int64_t padding() const;

  /// The loss counts where the label is a token of an answer, in the same conversation.
  void row(std::uint64_t i, const micro_batch_row& out) const override;
  void expect(std::uint64_t i) const override;

 private:
  std::int64_t used(std::int64_t conversation) const;
  void add_epoch(sequence_range of, std::uint64_t epoch);
  void lay(std::int64_t conversation, std::int64_t at, const micro_batch_row& out) const;

  std::shared_ptr<const conversation_source> source_;
  sft_dataset_options options_;
  data_split part_;
  std::vector<std::uint32_t> order_;   ///< conversations of all epochs
  std::vector<std::uint64_t> starts_;  ///< sample i: of order_, [starts_[i], starts_[i + 1])
  std::int64_t filled_ = 0;            ///< tokens of the last sample, while it is packed
};

}  // namespace troupe::runtime

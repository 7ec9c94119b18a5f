// A data set for supervised fine-tuning: packs conversations into sequences; loss on answers only.
//
// Epoch e has all conversations in the order of numpy's RandomState(seed + e).shuffle. Each sample
// takes whole conversations in this order while they fit, across the ends of epochs. A conversation
// longer than S is cut to its first S tokens. Positions restart and attention is cut at each
// conversation, and at the padding at the end of a sample.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/data/conversation_files.hpp"
#include "runtime/data/sample_dataset.hpp"
#include "runtime/data/split.hpp"
#include "runtime/data/token_schema.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace troupe::runtime {

struct sft_dataset_options {
  std::int64_t sequence_length = 0;           ///< S
  std::optional<std::uint64_t> samples = {};  ///< minimum; nullopt: one epoch
  std::uint32_t seed = 1234;
  std::int64_t vocabulary = 0;  ///< ids must be below it
  cancel_token stop = {};       ///< checked while the order is made
};

/// True if the first `length` tokens of the conversation have a label within an answer.
bool has_label(const conversation_source& source, std::int64_t conversation, std::int64_t length);

/// Immutable; any number of threads may read at once. Sample i depends only on the source, the
/// split, S and the seed, not on the number of samples. Memory: 4 bytes per conversation and epoch,
/// 8 bytes per sample.
class sft_dataset final : public sample_dataset {
 public:
  /// Uses the conversations that `split` assigns to `part`. Throws input_error when there are none,
  /// or when none of them has a label.
  sft_dataset(std::shared_ptr<const conversation_source> source,
              const split_matrix& split,
              data_split part,
              const sft_dataset_options& options);

  std::uint64_t size() const override { return starts_.size() - 1; }
  std::int64_t sequence_length() const { return options_.sequence_length; }
  batch_schema schema() const override { return token_schema(options_.sequence_length, true); }

  /// Number of padding tokens in all samples.
  std::int64_t padding() const;

  /// The mask is 1 where the label is a token of an answer of the same conversation.
  void fill(std::uint64_t i, const sample_view& out) const override;
  void expect(std::uint64_t i) const override;

 private:
  std::int64_t used(std::int64_t conversation) const;
  void add_epoch(sequence_range of, std::uint64_t epoch);
  void lay(std::int64_t conversation, std::int64_t at, const token_row& out) const;

  std::shared_ptr<const conversation_source> source_;
  sft_dataset_options options_;
  data_split part_;
  std::vector<std::uint32_t> order_;   ///< conversations of all epochs
  std::vector<std::uint64_t> starts_;  ///< sample i: [starts_[i], starts_[i + 1]) of order_
  std::int64_t filled_ = 0;            ///< tokens in the last sample during packing
};

}  // namespace troupe::runtime

// The common part of data sets of masked text: sentences of an indexed data set, and a generator
// for each sample.

#pragma once

#include "runtime/data/masking.hpp"
#include "runtime/data/sample_dataset.hpp"
#include "runtime/data/sentence_index.hpp"
#include "runtime/data/token_source.hpp"

#include <memory>
#include <vector>

namespace troupe::runtime {

struct masked_dataset_options {
  std::optional<std::uint64_t> samples = {};  ///< minimum; nullopt: one epoch
  std::uint32_t seed = 1234;
  masking_settings masking = {};
  masking_vocabulary vocabulary = {};
  std::optional<std::filesystem::path> cache = {};  ///< folder; nullopt: index in memory only
  cancel_token stop = {};                           ///< checked while the index is built
};

/// Immutable; any number of threads may read samples at once. Sample i depends only on the data
/// set, the split and the options.
class masked_dataset : public sample_dataset {
 public:
  std::uint64_t size() const override { return index_.size() / 3; }
  const index_array& index() const { return index_; }
  void expect(std::uint64_t i) const override;

 protected:
  /// `longest`, `least_sentences`: see sentence_index_request. Throws input_error if the part has
  /// no samples, and `cancelled`.
  masked_dataset(std::shared_ptr<const document_source> source,
                 const split_matrix& split,
                 data_split part,
                 masked_dataset_options options,
                 std::int64_t longest,
                 std::int64_t least_sentences);

  struct sentences {
    std::vector<std::vector<std::int32_t>> tokens;
    std::int64_t target = 0;  ///< length of the sample without tokens that are added
  };
  /// The sentences of sample i. Throws input_error when i >= size(), an id is outside the
  /// vocabulary, or a cached index points outside the data.
  sentences read(std::uint64_t i) const;
  numpy_random_state draws_of(std::uint64_t i) const;
  const masked_dataset_options& options() const { return options_; }

 private:
  struct run {
    std::int64_t begin = 0, end = 0, target = 0;
  };
  run run_of(std::uint64_t i) const;
  void check_ids(std::span<const std::int32_t> ids, std::int64_t sentence) const;

  std::shared_ptr<const document_source> source_;
  masked_dataset_options options_;
  data_split part_;
  std::int64_t longest_, least_sentences_;
  index_array index_;
};

}  // namespace troupe::runtime

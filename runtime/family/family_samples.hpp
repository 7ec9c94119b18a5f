// How a family makes samples of data sets. A data set is a pair of Megatron's indexed files; the
// job divides it into parts, blends several of them, and checks the tokenizer that wrote them.
//
// A family that overrides model_family::samples reads files in its own way: with tensors, an order,
// an index and a cache of its own. The others have text_samples.hpp.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/data/batch_source.hpp"
#include "runtime/data/data_settings.hpp"
#include "runtime/data/sample_dataset.hpp"
#include "runtime/data/token_source.hpp"
#include "runtime/family/model_description.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Samples of one data set: those of the documents that split_for gives to a part. Valid during the
/// call that gets it: a data set copies what it keeps.
struct samples_request {
  const data_settings& data;
  data_split part = data_split::train;
  std::optional<std::filesystem::path> prefix = {};  ///< of the data set; nullopt: `data.mock`
  std::optional<std::uint64_t> samples = {};         ///< minimum; nullopt: one epoch
  std::uint64_t evaluation = 0;  ///< of an evaluation, which begins at a multiple; 0: unknown
  std::uint64_t seed = 0;
  std::string tokenizer = {};                      ///< for named_tokenizer; empty: the job has none
  std::shared_ptr<const fill_in_middle> fim = {};  ///< null: texts stay as they are
  cancel_token stop = {};
};

/// A phrase before the number of tokens of the training data, and one behind all numbers.
struct samples_text {
  std::string before, after;
};

/// One object a family. Immutable and thread-safe. Functions get models of this family only.
class family_samples {
 public:
  virtual ~family_samples() = default;

  /// The tensors of its samples, of files and made up.
  virtual batch_schema schema(const model_description& model, const data_settings& data) const = 0;

  /// True if its samples follow this setting: "data.sft", "data.fim.enabled", "data.eod_mask_loss",
  /// "data.reset_position_ids" or "data.reset_attention_mask". A job refuses those that change
  /// nothing (FAMILY-3).
  virtual bool follows(std::string_view setting) const = 0;

  /// Files of a part that settings of the model name, in place of the data settings. Their contents
  /// are part of the run's identity. Throws input_error.
  virtual std::vector<std::string> files(const model_description& /*model*/,
                                         data_split /*part*/) const {
    return {};
  }
  /// The samples of these files, once over. Throws input_error.
  virtual std::uint64_t samples_in_files(const model_description& /*model*/,
                                         data_split /*part*/) const {
    return 0;
  }
  /// Passes over the files in a run; 0: other settings say how long it is.
  virtual std::int64_t epochs(const model_description& /*model*/) const { return 0; }

  /// True if a split divides documents; false: sequences.
  virtual bool splits_documents() const { return false; }

  /// Sample i is a function of the data set and the request, except `samples` and `stop`. Data sets
  /// have the schema above. Throws input_error, and `cancelled` soon after `stop` is cancelled.
  virtual std::shared_ptr<const sample_dataset> open(const model_description& model,
                                                     const samples_request& from) const = 0;

  /// One sentence per violated rule of settings, which names them. `tokenizer`: for
  /// named_tokenizer; empty: the job has none.
  virtual std::vector<std::string> validate(const model_description& /*model*/,
                                            const data_settings& /*data*/,
                                            const std::string& /*tokenizer*/) const {
    return {};
  }

  /// The documents of `data.mock` that `open` makes samples of; null: samples are made up without
  /// documents. Throws input_error.
  virtual std::shared_ptr<const token_source> made_up_documents(
      const model_description& /*model*/, const data_settings& /*data*/) const {
    return nullptr;
  }

  /// "12 training samples of 64 tokens: 0.42 epochs of ", for a part with this number of tokens and
  /// a request without a data set.
  virtual samples_text describe(const model_description& model,
                                const samples_request& all,
                                std::int64_t tokens) const;
};

/// Micro-batches that the model's family makes up for `data.mock`, 2^20 samples; null: it has
/// text_samples, which cuts them from documents.
std::shared_ptr<const batch_source> made_up_batches(const model_description& model,
                                                    data_split part,
                                                    batch_layout layout,
                                                    std::uint64_t seed);

}  // namespace troupe::runtime

// A trained model, taken from a checkpoint to be used: its parameters, and its tokenizer.

#pragma once

#include "runtime/checkpoint/manifest.hpp"
#include "runtime/model/chunk.hpp"
#include "runtime/model/extension.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <filesystem>
#include <memory>

namespace troupe::runtime {

struct loading {
  std::filesystem::path from;  ///< where a training run saved, or one iter_... folder in it
  kernels::backend backend = kernels::backend::cpu;
  int threads = 1;
  dtype precision = dtype::f32;  ///< of values, activations, keys and logits
  /// Instead of the one that is kept beside the checkpoints; must have its fingerprint.
  std::unique_ptr<const tokenizer> with = nullptr;
  extension own = {};  ///< that the model was trained with
};

/// The folder in which the run that saved `from`, as in `loading`, kept its tokenizer.
std::filesystem::path kept_tokenizer(const std::filesystem::path& from);

/// The whole model on one stream. One thread.
class loaded_model {
 public:
  /// Reads and verifies. Throws input_error when there is no valid checkpoint, or not of this
  /// model, or its tokenizer is missing. A checkpoint that was passed over is said in the log.
  explicit loaded_model(loading wanted);

  const gpt_config& config() const { return manifest_.model; }
  const checkpoint_manifest& manifest() const { return manifest_; }
  const tokenizer& text() const { return *tokenizer_; }

  const chunk& whole() const { return *model_; }
  resident_store& store() { return *store_; }
  runtime::stream& stream() { return stream_; }

 private:
  checkpoint_manifest manifest_;
  runtime::stream stream_;
  std::unique_ptr<const tokenizer> tokenizer_;
  std::unique_ptr<chunk> model_;
  std::unique_ptr<resident_store> store_;
};

}  // namespace troupe::runtime

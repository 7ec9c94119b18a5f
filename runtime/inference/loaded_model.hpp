// A trained model loaded from a checkpoint for inference: parameters and tokenizer.

#pragma once

#include "runtime/checkpoint/manifest.hpp"
#include "runtime/family/embedded_text.hpp"
#include "runtime/family/given_text.hpp"
#include "runtime/model/chunk.hpp"
#include "runtime/model/extension.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

namespace troupe::runtime {

enum class model_use : std::uint8_t {
  continues,  ///< texts, without a given_text before them
  generates,  ///< texts, after a given_text if the model reads one
  embeds,     ///< turns texts into vectors: the model has no heads
};

struct loading {
  /// Folder where a training run saved, one iter_... folder in it, or a model folder of Hugging
  /// Face.
  std::filesystem::path from;
  kernels::backend backend = kernels::backend::cpu;
  int threads = 1;
  dtype precision = dtype::f32;  ///< of weights, activations, KV cache and logits
  /// Replaces the tokenizer beside the checkpoints; must have the same fingerprint.
  std::unique_ptr<const tokenizer> with = nullptr;
  extension own = {};  ///< the extension that the model was trained with
  model_use use = model_use::continues;
};

/// The folder with the tokenizer of the model in `from`, as in `loading`: a model folder of Hugging
/// Face itself, or the folder in which the run kept its tokenizer.
std::filesystem::path kept_tokenizer(const std::filesystem::path& from);

/// The whole model on one stream. One thread.
class loaded_model {
 public:
  /// Loads and verifies. Throws input_error when there is no valid checkpoint, when the checkpoint
  /// is of another model, when that needs more than tokens, or when its tokenizer is missing. Logs
  /// a warning for a skipped checkpoint.
  explicit loaded_model(loading wanted);

  const model_description& config() const { return manifest_.model; }
  /// A model folder of Hugging Face gives iteration 0, without shards.
  const checkpoint_manifest& manifest() const { return manifest_; }
  /// Digest of the parameters, before they are rounded to its precision.
  const std::string& digest() const { return digest_; }
  const tokenizer& text() const { return *tokenizer_; }
  /// Ids that end a text, beside the tokenizer's end of a document: those of the model folder, also
  /// of one from which the run began.
  const std::vector<std::int32_t>& ends() const { return ends_; }
  /// Text that the model reads before it generates; empty: it continues the prompt.
  const std::optional<given_text>& before() const { return before_; }
  /// The input that embeds a text; only with model_use::embeds.
  const std::optional<embedded_text>& embedded() const { return embedded_; }

  const chunk& whole() const { return *model_; }
  resident_store& store() { return *store_; }
  runtime::stream& stream() { return stream_; }

 private:
  void load_checkpoint(loading& wanted);
  void load_hub(loading& wanted);
  model_spec spec_for(const loading& wanted);
  template <class From>
  void fill(const From& from, const loading& wanted);

  checkpoint_manifest manifest_;
  std::string digest_;
  runtime::stream stream_;
  std::unique_ptr<const tokenizer> tokenizer_;
  std::vector<std::int32_t> ends_;
  std::optional<given_text> before_;
  std::optional<embedded_text> embedded_;
  std::unique_ptr<chunk> model_;
  std::unique_ptr<resident_store> store_;
};

}  // namespace troupe::runtime

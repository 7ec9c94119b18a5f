// Vectors of texts, as Megatron-LM's bert_embedding: the mean over the tokens of a text, or the
// vector of the first token of the sample.

#pragma once

#include "runtime/inference/loaded_model.hpp"
#include "runtime/model/recompute_plan.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace troupe::runtime {

enum class text_vector : std::uint8_t {
  mean,   ///< over the tokens of the text, without those around it
  first,  ///< of the token before the text, such as "[CLS]"
};

struct embedded_tokens {
  std::vector<std::int32_t> ids;  ///< with those around the text
  std::int64_t tokens = 0;        ///< of the text, before it was cut
  bool cut = false;
};

/// `model` was loaded with loading::embeds and outlives it. One thread.
class embedder {
 public:
  /// `longest`: tokens of a sample, with those around the text; at most those of the model.
  embedder(loaded_model& model, text_vector kind, std::int64_t longest);

  /// Leaves out "<|endoftext|>", as Megatron-LM.
  embedded_tokens encode(std::string_view text) const;
  /// The sample of a text with these ids.
  embedded_tokens around(std::vector<std::int32_t> ids) const;

  /// (n, C), row-major, of n samples in one batch. Throws input_error for numbers that are not
  /// finite.
  std::vector<float> vectors(std::span<const embedded_tokens> batch);

  std::int64_t width() const { return width_; }  ///< C

 private:
  bundle inputs_of(std::span<const embedded_tokens> batch, std::int64_t T) const;

  loaded_model& model_;
  text_vector kind_;
  std::int64_t longest_, width_;
  recompute_plan plan_;
};

}  // namespace troupe::runtime

// Generates text: continues prompts token by token; each token depends on all tokens before it.

#pragma once

#include "runtime/model/choice_texts.hpp"
#include "runtime/model/chunk_pass.hpp"
#include "runtime/parameters/store.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace troupe::runtime {

/// Sampling of a token. top_k and top_p exclude each other.
struct sampling_settings {
  float temperature = 1;  ///< above 0
  std::int64_t top_k = 0;
  float top_p = 0;
  std::uint64_t seed = 1234;
};

/// Always the most probable token.
inline sampling_settings greedy() {
  return {.top_k = 1};
}

enum class generation_end : std::uint8_t {
  enough,            ///< the requested number of tokens
  end_of_document,   ///< the model ended it; that token is not passed on
  end_of_positions,  ///< the last learned position is used
  stopped            ///< the visitor returned false
};

struct generation_request {
  std::vector<std::int32_t> prompt;  ///< at least one token
  std::int64_t tokens = 0;           ///< maximum
  std::int32_t end_of_document = 0;  ///< -1: none
  std::int64_t ids = 0;              ///< tokens have a smaller id; 0: any id of the vocabulary
  sampling_settings sampling;
  std::uint64_t number = 0;  ///< number of the prompt; keys its random numbers
};

/// Computes the next token's logits for growing sequences. One thread. The constructor's arguments
/// must outlive it.
class decoder {
 public:
  /// `sequences` sequences of at most `capacity` tokens each. Without `cached` there is no KV
  /// cache: slower, with the same logits.
  decoder(const chunk& whole,
          parameter_store& store,
          stream& stream,
          std::int64_t capacity,
          bool cached,
          std::size_t sequences = 1);

  /// Later calls of `advance` keep the choices of experts.
  void keep_choices() { keeps_choices_ = true; }

  /// Appends one or more tokens to each sequence. Returns the logits (sequences, padded vocabulary)
  /// after the last token of each, valid until the next call.
  std::span<const float> advance(std::span<const std::vector<std::int32_t>> tokens);

  /// Writes the kept choices for the tokens that the last call appended to a sequence.
  void record(std::size_t sequence, std::uint64_t text, choice_text_writer& to) const;

 private:
  bundle input(std::span<const std::vector<std::int32_t>> tokens);
  void keep_last(const tensor& logits, std::span<const std::vector<std::int32_t>> tokens);

  const chunk& chunk_;
  recompute_plan plan_;
  parameter_store& store_;
  stream& stream_;
  std::int64_t capacity_;
  std::vector<std::vector<std::int32_t>> so_far_;  ///< all tokens of each sequence, without caches
  std::vector<std::int64_t> filled_;               ///< tokens of each sequence in the caches
  std::optional<std::vector<attention_cache>> caches_;
  std::vector<float> logits_;  ///< after the last token of each sequence
  bool keeps_choices_ = false;
  // Of the last call:
  std::vector<recorded_choice> choices_;
  std::vector<std::int64_t> appended_;  ///< tokens of each sequence
};

/// Throws input_error for an empty prompt or, with learned positions, a too long one.
void require_fitting(const generation_request& what, const model_spec& model);

/// Called with each new token of a request; returns false to end that text.
using token_visitor = std::function<bool(std::size_t request, std::int32_t token)>;

/// Continues all prompts together, one token of each per step, and passes each token to `visit` at
/// once. Returns how each text ended. Token i of a request is sampled with the random number of
/// (seed, "generate", request number, i), so equal requests give equal texts. Other requests in the
/// batch can change the last bits of a request's logits, and only those. Throws input_error for a
/// prompt that does not fit and for non-finite logits. `record` gets the tokens and choices of each
/// text, whose number is that of its request.
std::vector<generation_end> generate(const chunk& whole,
                                     parameter_store& store,
                                     stream& stream,
                                     std::span<const generation_request> what,
                                     const token_visitor& visit,
                                     bool cached = true,
                                     choice_text_writer* record = nullptr);

}  // namespace troupe::runtime

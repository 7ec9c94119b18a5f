// Turns prompts into more text: one token at a time, each a function of all before it.

#pragma once

#include "runtime/model/chunk_pass.hpp"
#include "runtime/parameters/store.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace troupe::runtime {

/// How a token is chosen. top_k and top_p exclude each other.
struct sampling_settings {
  float temperature = 1;  ///< above 0
  std::int64_t top_k = 0;
  float top_p = 0;
  std::uint64_t seed = 1234;
};

/// The most probable token, always.
inline sampling_settings greedy() {
  return {.top_k = 1};
}

enum class generation_end : std::uint8_t {
  enough,            ///< as many tokens as were asked for
  end_of_document,   ///< the model said so; that token is not handed out
  end_of_positions,  ///< of a table of learned positions the last was used
  stopped            ///< the caller that got the tokens wanted no more
};

struct generation_request {
  std::vector<std::int32_t> prompt;  ///< at least one token
  std::int64_t tokens = 0;           ///< at most so many
  std::int32_t end_of_document = 0;
  sampling_settings sampling;
  std::uint64_t number = 0;  ///< of the prompt among several: its draws are keyed by it
};

/// Logits of the next token, after sequences that grow. One thread; what it is made of outlives it.
class decoder {
 public:
  /// `sequences` sequences of at most `capacity` tokens each. Without `cached` nothing is kept
  /// between calls: slower, the same logits.
  decoder(const chunk& whole,
          parameter_store& store,
          stream& stream,
          std::int64_t capacity,
          bool cached,
          std::size_t sequences = 1);

  /// Appends to each sequence its tokens, one or more; returns the logits (sequences, padded
  /// vocabulary) after the last of each, valid until the next call.
  std::span<const float> advance(std::span<const std::vector<std::int32_t>> tokens);

 private:
  bundle input(std::span<const std::vector<std::int32_t>> tokens);
  void keep_last(const tensor& logits, std::span<const std::vector<std::int32_t>> tokens);

  const chunk& chunk_;
  recompute_plan plan_;
  parameter_store& store_;
  stream& stream_;
  std::int64_t capacity_;
  std::vector<std::vector<std::int32_t>> so_far_;  ///< of each sequence; without caches: all tokens
  std::vector<std::int64_t> filled_;               ///< tokens of each sequence in the caches
  std::optional<std::vector<attention_cache>> caches_;
  std::vector<float> logits_;  ///< after the last token of each sequence
};

/// Throws input_error for a prompt that is empty or, with learned positions, too long.
void require_fitting(const generation_request& what, const model_spec& model);

/// Told which request has which next token; false ends that text.
using token_visitor = std::function<bool(std::size_t request, std::int32_t token)>;

/// Continues all prompts together, one token of each at a time, and hands out each as soon as it is
/// there; says how each ended. Token number i of a request is drawn by the random number (seed,
/// "generate", number of the request, i): the same requests give the same texts. What runs beside a
/// request can change the last bits of its logits, and nothing else. Throws input_error for a
/// prompt that does not fit and for logits that are not finite.
std::vector<generation_end> generate(const chunk& whole,
                                     parameter_store& store,
                                     stream& stream,
                                     std::span<const generation_request> what,
                                     const token_visitor& visit,
                                     bool cached = true);

}  // namespace troupe::runtime

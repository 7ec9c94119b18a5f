// Turns a prompt into more text: one token at a time, each a function of all before it.

#pragma once

#include "runtime/model/chunk.hpp"
#include "runtime/parameters/store.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace troupe::runtime {

/// How a token is chosen. top_k and top_p exclude each other.
struct sampling {
  float temperature = 1;  ///< above 0
  std::int64_t top_k = 0;
  float top_p = 0;
  std::uint64_t seed = 1234;
};

/// The most probable token, always.
inline sampling greedy() {
  return {.top_k = 1};
}

enum class generation_end : std::uint8_t {
  enough,           ///< as many tokens as were asked for
  end_of_document,  ///< the model said so; that token is not handed out
  end_of_positions  ///< learned positions end at the length that the model was trained for
};

struct generation_request {
  std::vector<std::int32_t> prompt;  ///< at least one token
  std::int64_t tokens = 0;           ///< at most so many
  std::int32_t end_of_document = 0;
  sampling how;
  bool cached = true;  ///< false: every token is computed anew from the beginning; the same text
};

/// Logits of the next token, after a sequence that grows. One thread; what it is made of outlives
/// it.
class decoder {
 public:
  /// A sequence of at most `capacity` tokens. Without `cached` nothing is kept between calls.
  decoder(
      const chunk& whole, parameter_store& store, stream& on, std::int64_t capacity, bool cached);

  /// Appends tokens; returns the logits (padded vocabulary) after the last of them, valid until the
  /// next call. Throws input_error when they are not finite.
  std::span<const float> advance(std::span<const std::int32_t> tokens);

 private:
  const chunk& chunk_;
  chunk_route route_;
  parameter_store& store_;
  stream& stream_;
  std::vector<std::int32_t> so_far_;  ///< without caches: all tokens
  std::int64_t filled_ = 0;           ///< tokens in the caches
  std::optional<std::vector<attention_cache>> caches_;
  std::vector<float> logits_;  ///< after the last token
};

/// Hands out each new token as soon as it is there. Token number i is drawn by the random number
/// (seed, "generate", i): the same request gives the same text. Throws input_error for a prompt
/// that is empty or, with learned positions, too long.
generation_end generate(const chunk& whole,
                        parameter_store& store,
                        stream& on,
                        const generation_request& what,
                        const std::function<void(std::int32_t)>& visit);

}  // namespace troupe::runtime

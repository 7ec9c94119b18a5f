// Generates text: continues prompts token by token; each token depends on all tokens before it.

#pragma once

#include "runtime/family/given_text.hpp"
#include "runtime/inference/decoder.hpp"
#include "runtime/inference/sampling.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace troupe::runtime {

enum class generation_end : std::uint8_t {
  enough,            ///< the requested number of tokens
  end_of_document,   ///< the model ended it; that token is not passed on
  end_of_positions,  ///< the last learned position is used
  stopped            ///< the visitor returned false
};

struct generation_request {
  std::vector<std::int32_t> prompt;           ///< begins the generated text; at least one token
  std::vector<std::int32_t> given;            ///< for a model that reads a given_text
  std::int64_t tokens = 0;                    ///< maximum
  std::int32_t end_of_document = 0;           ///< -1: none
  std::vector<std::int32_t> other_ends = {};  ///< end a text, too
  std::int64_t ids = 0;  ///< tokens have a smaller id; 0: any id of the vocabulary
  sampling_settings sampling;
  std::uint64_t number = 0;  ///< number of the prompt; keys its random numbers
};

/// Throws input_error for an empty prompt or, with learned positions, a too long one.
void require_fitting(const generation_request& what, const model_spec& model);

/// Maximum number of tokens that a fitting request can get.
std::int64_t tokens_allowed(const generation_request& what, const model_spec& model);
/// Number of ids to choose from: the last rows of a padded vocabulary have no token.
std::int64_t ids_allowed(const generation_request& what, const model_spec& model);
/// Throws input_error for logits that are not finite, after so many tokens.
void require_finite(std::span<const float> logits, std::size_t tokens, dtype precision);

/// Gives the texts of all requests to a new decoder. Throws input_error for an empty one.
void read_given(decoder& to,
                stream& stream,
                std::span<const generation_request> what,
                const given_text& names);

/// Called with each new token of a request; returns false to end that text.
using token_visitor = std::function<bool(std::size_t request, std::int32_t token)>;

/// Continues all prompts together, one token of each per step, and passes each token to `visit` at
/// once. Returns how each text ended. Token i of a request is sampled with the number
/// draw_of(seed, request number, 0, i), so equal requests give equal texts. Other requests in the
/// batch can change the last bits of a request's logits, and only those. Throws input_error for a
/// prompt that does not fit and for non-finite logits. `record` gets the tokens and choices of each
/// text, whose number is that of its request. `given`: the model reads generation_request::given.
std::vector<generation_end> generate(const chunk& whole,
                                     parameter_store& store,
                                     stream& stream,
                                     std::span<const generation_request> what,
                                     const token_visitor& visit,
                                     bool cached = true,
                                     choice_text_writer* record = nullptr,
                                     const given_text* given = nullptr);

}  // namespace troupe::runtime

// Chooses the next token of a served text from its logits.

#pragma once

#include "runtime/serving/text_engine.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::runtime::serving {

/// The log-probability of `token`, and the `alternatives` most probable tokens.
token_choice choice_of(std::span<const float> logits,
                       std::int32_t token,
                       std::int64_t alternatives);

/// `so_far`: the tokens of the text, of which the first `prompt` are its prompt. `uniform`: in
/// [0, 1). `banned`: tokens that are not chosen. Penalties as in vLLM: that for repetition counts
/// the prompt, the others do not. Limits apply in the order top_k, top_p, min_p.
std::int32_t pick(std::span<const float> logits,
                  const sampling_settings& how,
                  std::span<const std::int32_t> so_far,
                  std::size_t prompt,
                  std::span<const std::int32_t> banned,
                  double uniform);

}  // namespace troupe::runtime::serving

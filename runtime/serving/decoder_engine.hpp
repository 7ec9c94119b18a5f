// A simple engine: each text has a decoder of its own with a dense cache, and a step computes one
// token of each running text. A text is computed alone, so its neighbours never change its bits.

#pragma once

#include "runtime/inference/loaded_model.hpp"
#include "runtime/serving/text_engine.hpp"

#include <memory>

namespace troupe::runtime::serving {

struct decoder_engine_settings {
  std::int64_t running = 8;  ///< texts that are computed in turn; further ones wait
  std::int64_t context = 0;  ///< most tokens of a prompt and its continuation
};

/// The model outlives it. A text ends as `failed` when the model's output is not finite.
std::unique_ptr<text_engine> make_decoder_engine(loaded_model& model,
                                                 const decoder_engine_settings& how);

}  // namespace troupe::runtime::serving

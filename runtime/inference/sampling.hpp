// Chooses the next token of a text from logits.
//
// The logits of a row change in this order:
//
//   1. bias: logit += bias of the token
//   2. repetition penalty r, once for each token of prompt and text: logit / r above 0, else
//      logit * r
//   3. frequency and presence penalty, for each token that the text has n > 0 times:
//      logit -= n * frequency + presence
//   4. tokens that are not allowed, or are banned, leave
//   5. kernels/op/sample.hpp: temperature, top-k, top-p, min-p, and the draw
//
// This is the order of transformers' processors. vLLM applies min-p before top-k and top-p.
// Log-probabilities are those of the unchanged logits. Each equals the loss that training computes
// for this token and row, to the bit: the same operation adds them.
//
// Keskar et al.: "CTRL", 2019 (repetition); Nguyen et al.: "Turning up the heat", 2024 (min-p).

#pragma once

#include "runtime/device/stream.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// The defaults sample from the model's distribution.
struct sampling_settings {
  float temperature = 1;   ///< 0: the most probable token
  std::int64_t top_k = 0;  ///< 0: all
  float top_p = 1;         ///< 1: all; 0: the most probable token
  float min_p = 0;         ///< relative to the most probable token; 0: all
  float repetition_penalty = 1;
  float presence_penalty = 0, frequency_penalty = 0;
  std::vector<std::pair<std::int32_t, float>> bias = {};  ///< by token
  std::uint64_t seed = 1234;

  bool operator==(const sampling_settings&) const = default;
};

/// Always the most probable token.
inline sampling_settings greedy() {
  return {.temperature = 0};
}

/// Throws input_error for a setting out of its range, and for a bias of an id that is not below
/// `ids`.
void require_sampling(const sampling_settings& settings, std::int64_t ids);

/// The random number in [0, 1) of a token: number `position` of the text, from 0. Texts of one
/// request differ in `copy`.
double draw_of(std::uint64_t seed,
               std::uint64_t request,
               std::uint64_t copy,
               std::uint64_t position);

/// A token with its log-probability; NaN if that was not asked for.
struct token_choice {
  std::int32_t token = 0;
  float log_probability = 0;
  /// The most probable tokens, best first; of equal ones the smaller id.
  std::vector<std::pair<std::int32_t, float>> alternatives = {};
};

/// The place in a text where a token is chosen.
struct token_place {
  std::span<const float> logits;                ///< (vocabulary), finite
  std::int64_t ids = 0;                         ///< tokens have a smaller id; 0: all logits
  std::span<const std::int32_t> so_far = {};    ///< prompt and text
  std::size_t prompt = 0;                       ///< tokens of so_far that are the prompt
  std::span<const std::uint64_t> allowed = {};  ///< bit i % 64 of word i / 64: token i; empty: all
  std::span<const std::int32_t> banned = {};    ///< not chosen
  double draw = 0;                              ///< draw_of
  std::optional<std::int64_t> alternatives = {};  ///< how many; nothing: no log-probabilities
};

/// `host` computes on the host. At least one token must be allowed (CHOOSE-1). The result depends
/// only on the place and the settings.
token_choice choose(stream& host, const token_place& at, const sampling_settings& settings);

/// The log-probability of a token after these logits, such as a prompt's.
token_choice choice_of(stream& host,
                       std::span<const float> logits,
                       std::int32_t token,
                       std::int64_t alternatives);

/// The indices of texts, best first: by the mean of their log-probabilities. Equal texts keep their
/// order; one without tokens is last.
std::vector<std::size_t> best_first(std::span<const std::vector<float>> log_probabilities);

}  // namespace troupe::runtime

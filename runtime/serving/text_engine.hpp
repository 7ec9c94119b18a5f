// The engine behind a text server: what it is asked, and what it tells. One thread.
//
//   SERVE-1  A request ends once: with the event that has `end`. A cancelled one may end silently.
//   SERVE-2  The draws of a text depend only on (seed, number, copy, position), so other requests
//   do
//            not change it.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime::serving {

/// The defaults are the model's distribution itself.
struct sampling_settings {
  float temperature = 1;   ///< 0: the most probable token
  std::int64_t top_k = 0;  ///< 0: all
  float top_p = 1;         ///< 1: all
  float min_p = 0;         ///< least probability, relative to that of the most probable token
  float repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  std::vector<std::pair<std::int32_t, float>> bias;
  std::uint64_t seed = 1234;
};

/// A token with the log-probability of the model's distribution, before temperature and limits.
struct token_choice {
  std::int32_t token = 0;
  float log_probability = 0;
  std::vector<std::pair<std::int32_t, float>> alternatives = {};  ///< the most probable first
};

/// One text to generate.
struct served_request {
  std::vector<std::int32_t> prompt;  ///< at least one token
  std::int64_t most_tokens = 0;
  std::int64_t least_tokens = 0;   ///< before them no token of `ends` is chosen
  std::vector<std::int32_t> ends;  ///< tokens that end the text; they are not passed on
  sampling_settings sampling;
  std::uint64_t number = 0, copy = 0;
  std::optional<std::int64_t> alternatives;  ///< of each token; empty: no log-probabilities
  bool prompt_choices = false;               ///< log-probabilities of the prompt's tokens, too
};

enum class served_end : std::uint8_t { stop, length, cancelled, failed };

/// One new token of a request, its end, or both.
struct served_event {
  std::uint64_t request = 0;
  std::optional<token_choice> choice = {};
  std::optional<served_end> end = {};
  std::int64_t cached_tokens = 0;  ///< prompt tokens that were not computed; in the first event
  std::vector<token_choice> prompt
      = {};              ///< choices from the prompt's second token on; in the first
  std::string why = {};  ///< with `failed`: a sentence
};

struct engine_counters {
  std::int64_t running = 0, waiting = 0;
  std::int64_t pages_used = 0, pages_free = 0;  ///< of a paged cache; 0 without one
  std::uint64_t preemptions = 0;
};

class text_engine {
 public:
  virtual ~text_engine() = default;
  /// Returns the id of the request. Throws input_error with what is allowed.
  virtual std::uint64_t add(served_request what) = 0;
  virtual void cancel(std::uint64_t request) = 0;
  virtual bool idle() const = 0;
  /// Computes one forward pass of what the engine chooses.
  virtual std::vector<served_event> step() = 0;
  virtual engine_counters counters() const = 0;
};

}  // namespace troupe::runtime::serving

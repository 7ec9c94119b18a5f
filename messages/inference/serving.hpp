// Messages between the server of texts and the generator that computes them.
//
//   server -> generator    generate_text    a text to generate; answered by texts_grew until its
//   end
//                          stop_text        its client is gone, or it is complete
//                          embed_texts      answered by texts_embedded
//   generator -> server    texts_grew       the new tokens of one forward pass
//                          texts_embedded   vectors of texts
//   server -> itself       requests_wait    HTTP requests wait at its desk
//   generator -> itself    step_due         compute the next forward pass

#pragma once

#include "messages/core/inspect.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::messages {

struct weighted_token {
  std::int32_t token = 0;
  double value = 0;  ///< log-probability, or bias of its logit
};

struct chosen_token {
  std::int32_t token = 0;
  double log_probability = 0;
  std::vector<weighted_token> alternatives = {};  ///< the most probable first
};

/// The members are those of runtime::serving::served_request.
struct generate_text {
  std::uint64_t request = 0;  ///< the server's number of this text
  std::vector<std::int32_t> prompt = {};
  std::int64_t most_tokens = 0, least_tokens = 0;
  std::vector<std::int32_t> ends = {};
  double temperature = 1;
  std::int64_t top_k = 0;
  double top_p = 1, min_p = 0;
  double repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  std::vector<weighted_token> bias = {};
  std::uint64_t seed = 0, number = 0, copy = 0;
  std::int64_t alternatives = -1;  ///< -1: no log-probabilities
  bool prompt_choices = false;
};

struct stop_text {
  std::uint64_t request = 0;
};

/// A new token of a text, its end, or both.
struct grown_text {
  std::uint64_t request = 0;
  std::vector<chosen_token> choice = {};  ///< none or one
  std::int32_t end = -1;                  ///< -1: it grows; else a runtime::serving::served_end
  std::int64_t cached_tokens = 0;
  std::vector<chosen_token> prompt = {};
  std::string why = {};  ///< if it failed
};

struct texts_grew {
  std::vector<grown_text> texts = {};
  std::int64_t running = 0, waiting = 0, pages_used = 0, pages_free = 0;
  std::uint64_t preemptions = 0;
};

/// Either all texts have words, or all have ids.
struct embed_texts {
  std::uint64_t request = 0;
  std::vector<std::string> words = {};
  std::vector<std::vector<std::int32_t>> ids = {};
};

struct texts_embedded {
  std::uint64_t request = 0;
  std::int64_t width = 0;
  std::string vectors = {};  ///< little-endian f32, (texts, width)
  std::int64_t tokens = 0;   ///< that were read
  std::string refusal = {};  ///< a sentence; empty: embedded
};

struct requests_wait {
  std::uint64_t number = 0;  ///< of this message, from 1
};

struct step_due {
  std::uint64_t number = 0;  ///< of this message, from 1
};

}  // namespace troupe::messages

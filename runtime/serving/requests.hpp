// The bodies of OpenAI's requests, parsed and checked (docs/protocol/serving.md). All functions
// throw `refusal`.

#pragma once

#include "runtime/serving/request_fields.hpp"
#include "runtime/serving/text_engine.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe::runtime::serving {

/// Facts about the served model that requests are checked against.
struct served_facts {
  std::string model;             ///< its name in requests and answers
  std::int64_t vocabulary = 0;   ///< ids of tokens are smaller
  std::int64_t context = 0;      ///< most tokens of a prompt and its continuation
  std::int64_t most_texts = 64;  ///< of a request: prompts times copies
};

/// A prompt: text, or ids of tokens.
using given_prompt = std::variant<std::string, std::vector<std::int32_t>>;

/// A request of /v1/completions or /v1/chat/completions.
struct text_request {
  bool chat = false;
  std::vector<given_prompt> prompts;      ///< without chat
  json messages, tools;                   ///< with chat; tools: null or an array
  json template_variables;                ///< with chat: an object
  bool generation_prompt = true;          ///< with chat: ends with the header of an answer
  bool echo = false;                      ///< the text begins with the prompt
  std::int64_t copies = 1, returned = 1;  ///< best_of and n
  std::optional<std::int64_t> most_tokens;
  std::int64_t least_tokens = 0;
  std::vector<std::string> stop;
  std::vector<std::int32_t> stop_tokens;
  bool ignores_end = false;
  std::optional<std::int64_t> alternatives;  ///< of each token; empty: no log-probabilities
  sampling_settings sampling;                ///< its seed counts only if `seeded`
  bool seeded = false;
  bool stream = false, usage_in_stream = false;
};

text_request completion_in(std::string_view body, const served_facts& facts);
text_request chat_in(std::string_view body, const served_facts& facts);

struct embedding_request {
  std::vector<given_prompt> inputs;
  bool base64 = false;
};
embedding_request embedding_in(std::string_view body, const served_facts& facts);

/// A request of /tokenize: a prompt, or a conversation.
struct tokenize_request {
  std::string prompt;
  bool special_tokens = true;  ///< adds those around a text
  std::optional<text_request> conversation;
};
tokenize_request tokenize_in(std::string_view body, const served_facts& facts);
std::vector<std::int32_t> detokenize_in(std::string_view body, const served_facts& facts);

}  // namespace troupe::runtime::serving

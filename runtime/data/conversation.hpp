// Conversations: read from JSON, turned into token ids, with the answers that a model learns from.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/tokenizer/chat_template.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

struct conversation {
  nlohmann::ordered_json messages;         ///< a list of objects with "role" and "content"
  nlohmann::ordered_json tools = nullptr;  ///< a list, or null
  /// Numbers from 0, ascending, of the assistant's messages that are not to be learnt.
  std::vector<std::size_t> context = {};
  std::set<std::string> unread = {};  ///< names of the fields of its line that nothing reads
};

/// Of a line: {"messages": [{"role": R, "content": TEXT}, ...]} or {"conversations": [{"from": R,
/// "value": TEXT}, ...]}, with "tools" or without. Roles: system, developer, user, assistant, tool;
/// of the second form also human, gpt and function, which become user, assistant and tool. As in
/// Megatron-LM each system message begins another conversation; a "system" beside the list is the
/// first message. A message with "weight" 0, or "train", "training" or "loss" false, is not learnt.
/// Throws input_error for what is no such object, for an unknown role, for other fields that would
/// change what is learnt, and for a conversation without an answer that has a text or tool calls
/// and is to be learnt.
std::vector<conversation> conversations_of(std::string_view line);

/// How a conversation becomes a text.
enum class conversation_format : std::uint8_t {
  /// The folder's chat template; answers are what it marks by {% generation %}, or else what an
  /// assistant's message adds to the text up to the header of an answer.
  chat_template,
  whole,  ///< "default" of Megatron-LM's formats: the folder's template, every token is learnt
  nemotron_h_aligned,
  nemotron_nano_v2,
  identity,  ///< the contents one after the other
};

/// "template", "default", "nemotron-h-aligned", "nemotron-nano-v2", "identity"; else input_error.
conversation_format conversation_format_from(std::string_view name);

/// Whether the template is the folder's, or one that the format brings along.
bool uses_own_template(conversation_format format);
/// Of a format that brings one along.
chat_template template_of(conversation_format format);

/// Tokens [begin, end).
using token_range = std::pair<std::int32_t, std::int32_t>;

struct tokenized_conversation {
  std::vector<std::int32_t> ids;
  std::vector<token_range> answers;  ///< ascending, none empty, at least one
};

/// What `tokenize` reads; it outlives nothing that it returns.
struct conversation_rules {
  const tokenizer& text;
  const chat_template& prompt;  ///< of the format, or of the folder
  conversation_format format = conversation_format::chat_template;
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  ///< of the template
  std::time_t now = 0;     ///< for templates that tell the date
  cancel_token stop = {};  ///< looked at before each answer of a template that marks none
};

/// The ids are those of the whole text; a token that lies across the border of an answer is part of
/// the answer, as transformers counts it. Throws input_error for what the template refuses, and
/// where it does not say which part of the text an answer is: it marks none, and writes an earlier
/// message in another way once later ones follow; and `cancelled`. Any thread.
tokenized_conversation tokenize(const conversation_rules& by, const conversation& x);

}  // namespace troupe::runtime

// Conversations for fine-tuning: parses them from JSON and tokenizes them, marking the answers that
// contribute to the loss.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/core/error.hpp"
#include "runtime/tokenizer/chat_template.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// A conversation has no answer to learn.
class nothing_to_learn : public input_error {
 public:
  using input_error::input_error;
};

struct conversation {
  nlohmann::ordered_json messages;         ///< a list of objects with "role" and "content"
  nlohmann::ordered_json tools = nullptr;  ///< a list, or null
  /// Indices of the assistant's messages without loss, ascending.
  std::vector<std::size_t> context = {};
  std::set<std::string> unread = {};  ///< names of the ignored fields of its line
};

/// Parses a JSON object of one of these forms, or of those of conversation_forms.hpp, each with
/// optional "tools":
///   {"messages": [{"role": R, "content": TEXT}, ...]}
///   {"conversations": [{"from": R, "value": TEXT}, ...]}
///
/// Roles: system, developer, user, assistant, tool. The second form also has human, gpt, chatgpt,
/// bing, bard, function and observation, which become user, assistant and tool. As in Megatron-LM,
/// each system message begins a new conversation; a "system" field beside the list becomes the
/// first message. A message has no loss if its "weight" is 0, or its "train", "training" or "loss"
/// is false. An answer that is null becomes an empty text.
///
/// Throws input_error for other JSON, an unknown role, and an unsupported field that would change
/// the loss. Returns conversations without an answer too; `tokenize` refuses these.
std::vector<conversation> conversations_of(std::string_view line);

/// The rendering of a conversation as text.
enum class conversation_format : std::uint8_t {
  /// The folder's chat template. Answers are the parts marked by {% generation %}. Without marks,
  /// an answer is the text that an assistant's message adds after the generation prompt.
  chat_template,
  whole,  ///< Megatron-LM's "default": the folder's template, loss on every token
  nemotron_h_aligned,
  nemotron_nano_v2,
  identity,  ///< the concatenated contents
};

/// "template", "default", "nemotron-h-aligned", "nemotron-nano-v2", "identity"; else input_error.
conversation_format conversation_format_from(std::string_view name);

/// True if the format uses the folder's template; false if it has a built-in one.
bool uses_own_template(conversation_format format);
/// The built-in template of a format that has one.
chat_template template_of(conversation_format format);

/// Tokens [begin, end).
using token_range = std::pair<std::int32_t, std::int32_t>;

struct tokenized_conversation {
  std::vector<std::int32_t> ids;
  std::vector<token_range> answers;  ///< ascending, none empty, at least one
};

/// Inputs of `tokenize` that are the same for all conversations. Results do not refer to it.
struct conversation_rules {
  const tokenizer& text;
  const chat_template& prompt;  ///< the format's or the folder's
  conversation_format format = conversation_format::chat_template;
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  ///< for the template
  std::time_t now = 0;     ///< for templates that print the date
  cancel_token stop = {};  ///< checked before each answer that needs an extra rendering
};

/// Tokenizes the rendered text as a whole. A token that crosses the border of an answer belongs to
/// the answer, as in Hugging Face Transformers. Throws input_error when the template refuses the
/// conversation, and when the answers cannot be located: the template marks none and renders a
/// message differently once others follow. Throws nothing_to_learn without an answer that has a
/// loss and a text or tool calls. Throws `cancelled`. Any thread.
tokenized_conversation tokenize(const conversation_rules& by, const conversation& x);

}  // namespace troupe::runtime

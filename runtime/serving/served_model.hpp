// The model of a text server: tokenizer, chat template, limits. Turns requests into texts to
// generate.

#pragma once

#include "runtime/serving/requests.hpp"
#include "runtime/tokenizer/chat_template.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime::serving {

/// Const methods are thread-safe. The tokenizer outlives it.
class served_model {
 public:
  /// `chat`: the folder's templates; none: chat requests are refused. The end of an answer is found
  /// in the template's output after it.
  served_model(served_facts facts,
               const tokenizer& text,
               std::optional<chat_template> chat,
               std::optional<chat_template> chat_with_tools = {});

  const served_facts& facts() const { return facts_; }
  const tokenizer& text() const { return text_; }

  /// The ids of each prompt. `now`: for templates with a date. Throws `refusal` for a prompt that
  /// leaves no room in the context.
  std::vector<std::vector<std::int32_t>> prompts_of(const text_request& x, std::time_t now) const;
  /// The ids of a text, with the tokens before it that the model expects, if `framed`.
  std::vector<std::int32_t> ids_of(const std::string& text, bool framed) const;

  /// The texts to generate: all copies of the first prompt, then those of the second. `fresh`: the
  /// seed of a request without one.
  std::vector<served_request> texts_of(const text_request& x,
                                       const std::vector<std::vector<std::int32_t>>& prompts,
                                       std::uint64_t fresh) const;
  /// The texts that end an answer: those of the request, and that of the template.
  std::vector<std::string> stops_of(const text_request& x) const;

 private:
  std::string rendered(const text_request& x, std::time_t now) const;
  void find_end_of_turn();

  served_facts facts_;
  const tokenizer& text_;
  std::optional<chat_template> chat_, with_tools_;
  std::vector<std::int32_t> ends_of_turn_;
  std::string stop_of_turn_;
};

}  // namespace troupe::runtime::serving

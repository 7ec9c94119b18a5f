// `troupe generate`, in its four forms: one prompt, a file of prompts, prompts one after another, a
// conversation.

#pragma once

#include "actors/command/model_flags.hpp"
#include "runtime/inference/generator.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe::command {

struct generate_flags {
  model_flags model;
  std::optional<std::string> prompt;
  std::filesystem::path prompts;
  bool interactive = false, chat = false;
  std::string messages;          ///< of a conversation: a file, "-", or empty: lines are its turns
  std::string chat_template;     ///< name or file; empty: the folder's
  std::vector<std::string> set;  ///< variables of the template
  std::vector<std::int32_t> end_tokens = {};  ///< each ends a text, and is not shown
  std::vector<std::string> stop;
  std::int64_t tokens = 100, batch = 8;
  double temperature = 1, top_p = 0;
  std::int64_t top_k = 0, seed = 1234;
  bool greedy = false, cached = true;
  bool framed = true;  ///< with what the tokenizer puts before a text
};

/// Throws usage_error for settings that contradict each other.
runtime::sampling_settings sampling_of(const generate_flags& flags);

/// The request for one prompt, the `number`th of several.
runtime::generation_request request_for(const std::string& prompt,
                                        std::uint64_t number,
                                        const generate_flags& flags,
                                        const runtime::tokenizer& text);

/// Prints text as it comes.
void show(const std::string& text);

/// Continues one text and shows what is new as it comes; `wanted` is asked before each token is
/// shown. Returns the new text, without a stop word, and how it ended.
struct shown_text {
  std::string text;
  runtime::generation_end end;
};
shown_text stream_text(
    runtime::loaded_model& model,
    const generate_flags& flags,
    const std::string& prompt,
    const std::function<bool()>& wanted = [] { return true; });

/// Why a text ended, as a sentence; empty when it is as long as was asked for.
/// Throws usage_error; of 0, with what is meant by it.
double parse_temperature(const std::string& flag, const std::string& word);

std::string end_note(runtime::generation_end end, const runtime::gpt_config& config);

/// A JSON object a line for each prompt of flags.prompts, in their order.
int generate_batch(const generate_flags& flags);

/// Reads prompts from standard input and answers each, until its end.
int generate_interactively(generate_flags flags);

/// Answers a conversation: of a file, or turn by turn from standard input, until its end.
int generate_chat(generate_flags flags);

/// Calls `answer` for each line of standard input, until its end or ":quit"; lines that begin with
/// a colon change `flags`. What it throws is told, and the next line is read. `opening` begins the
/// help that a terminal shows. `wanted` turns false when Ctrl-C is pressed.
using line_answer
    = std::function<void(const std::string& line, const std::function<bool()>& wanted)>;
void answer_lines(generate_flags& flags, const std::string& opening, const line_answer& answer);

}  // namespace troupe::command

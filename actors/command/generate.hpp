// `troupe generate` in its four forms: one prompt, a file of prompts, interactive prompts, and a
// conversation.

#pragma once

#include "actors/command/model_flags.hpp"
#include "runtime/inference/generate_beams.hpp"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe::command {

struct generate_flags {
  model_flags model;
  std::optional<std::string> prompt;
  std::filesystem::path prompts;
  bool interactive = false, chat = false;
  std::string messages;          ///< file of a conversation, or "-"; empty: turns are input lines
  std::string chat_template;     ///< name or file; empty: the folder's default
  std::vector<std::string> set;  ///< variables of the template
  std::vector<std::int32_t> end_tokens = {};  ///< end a text, and are not shown
  std::vector<std::string> stop;
  std::filesystem::path record_choices;  ///< folder of choices of experts; empty: none
  std::int64_t tokens = 100, batch = 8;
  double temperature = 1, top_p = 1, min_p = 0;
  double repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  std::vector<std::string> bias;
  std::int64_t top_k = 0, seed = 1234;
  bool greedy = false, cached = true;
  std::int64_t beams = 1, returned = 1;  ///< 1: no beam search
  double length_penalty = 1;
  std::string early_stopping = "false";
  bool framed = true;  ///< adds the tokenizer's special tokens before a text
};

/// Throws usage_error for contradictory settings.
runtime::sampling_settings sampling_of(const generate_flags& flags);

/// Empty: no beam search. Throws usage_error for contradictory settings.
std::optional<runtime::beam_settings> beams_of(const generate_flags& flags);

/// The request for one prompt, the `number`th of several.
runtime::generation_request request_for(const std::string& prompt,
                                        std::uint64_t number,
                                        const generate_flags& flags,
                                        const runtime::loaded_model& model);

/// runtime::generate with the model and the flags.
std::vector<runtime::generation_end> continue_texts(
    runtime::loaded_model& model,
    const generate_flags& flags,
    std::span<const runtime::generation_request> what,
    const runtime::token_visitor& visit,
    runtime::choice_text_writer* record = nullptr);

/// runtime::generate_beams with the model and the flags.
std::vector<std::vector<runtime::beam_text>> search_texts(
    runtime::loaded_model& model,
    const generate_flags& flags,
    const runtime::beam_settings& settings,
    std::span<const runtime::generation_request> what,
    const std::function<bool()>& wanted = [] { return true; });

void declare_beams(command_line& line, generate_flags& f);

/// Writes the choices for these requests to the folder of the flags. Null if they have none. Throws
/// usage_error for a model without experts, and input_error and io_error.
std::unique_ptr<runtime::choice_text_writer> recorder_of(
    const generate_flags& flags,
    const runtime::loaded_model& model,
    std::span<const runtime::generation_request> requests);

/// Prints text and flushes standard output.
void show(const std::string& text);

struct shown_text {
  std::string text;
  runtime::generation_end end;
};
/// Continues one text and prints each token as it is generated, or the text that a beam search
/// finds. Stops when `wanted`, called after each token, returns false. Returns the new text without
/// a stop word.
shown_text stream_text(
    runtime::loaded_model& model,
    const generate_flags& flags,
    const std::string& prompt,
    const std::function<bool()>& wanted = [] { return true; });

/// Throws usage_error. The message for 0 refers to --greedy.
double parse_temperature(const std::string& flag, const std::string& word);

/// The reason why a text ended, as a sentence; empty if it has the requested length.
std::string end_note(runtime::generation_end end, const runtime::model_spec& model);

/// Prints a line of JSON for each prompt of flags.prompts, in their order.
int generate_batch(const generate_flags& flags);

/// Answers prompts from standard input, until its end.
int generate_interactively(generate_flags flags);

/// Answers a conversation from a file, or turn by turn from standard input, until its end.
int generate_chat(generate_flags flags);

/// Calls `answer` for each line of standard input, until its end or ":quit". Lines that begin with
/// a colon change `flags`. An exception is printed, and the next line is read. `opening` is the
/// first line of the help on a terminal. `wanted` returns false after Ctrl-C.
using line_answer
    = std::function<void(const std::string& line, const std::function<bool()>& wanted)>;
void answer_lines(generate_flags& flags, const std::string& opening, const line_answer& answer);

}  // namespace troupe::command

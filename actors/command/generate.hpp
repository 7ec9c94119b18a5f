// `troupe generate`, in its three forms: one prompt, a file of prompts, a conversation.

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
  bool interactive = false;
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

}  // namespace troupe::command

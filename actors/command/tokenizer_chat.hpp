// `troupe tokenizer chat`: converts a conversation to a prompt. Also parts of it for other
// commands.

#pragma once

#include "actors/command/command_line.hpp"
#include "actors/command/tokenizer_flags.hpp"
#include "runtime/tokenizer/chat_template.hpp"

namespace troupe::command {

void add_chat(command_line& tokenizer);

/// The JSON of a file, or of standard input for "-". Errors name `flag`. Throws input_error.
nlohmann::ordered_json json_in(const std::string& flag, const std::string& file);

/// The words of --set (NAME=VALUE) as a JSON object.
nlohmann::ordered_json variables_of(const std::vector<std::string>& words);

/// The folder with the tokenizer's files. Throws usage_error if the flags name none.
std::filesystem::path chat_folder(const tokenizer_flags& flags);

/// The template of the folder that `chosen` (--template) names, or the one in the file `chosen`.
runtime::chat_template chat_template_for(const std::filesystem::path& folder,
                                         const std::string& chosen,
                                         bool tools);

}  // namespace troupe::command

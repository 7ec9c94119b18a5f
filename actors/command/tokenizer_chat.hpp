// `troupe tokenizer chat`: a conversation becomes a prompt. And what other commands need for that.

#pragma once

#include "actors/command/command_line.hpp"
#include "actors/command/tokenizer_flags.hpp"
#include "runtime/tokenizer/chat_template.hpp"

namespace troupe::command {

void add_chat(command_line& tokenizer);

/// The JSON of a file, or of standard input for "-"; `flag` is how messages call it.
nlohmann::ordered_json json_in(const std::string& flag, const std::string& file);

/// The words of --set, NAME=VALUE each, as an object.
nlohmann::ordered_json variables_of(const std::vector<std::string>& words);

/// The folder that has the tokenizer's files. Throws usage_error where the flags name none.
std::filesystem::path chat_folder(const tokenizer_flags& flags);

/// The template of the folder that `chosen` names, as --template does, or a file.
runtime::chat_template chat_template_for(const std::filesystem::path& folder,
                                         const std::string& chosen,
                                         bool tools);

}  // namespace troupe::command

// The flags that choose a tokenizer: the same in training, preprocessing and `troupe tokenizer`.

#pragma once

#include "actors/command/command_line.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace troupe::command {

struct tokenizer_flags {
  std::string type = "GPT2BPETokenizer";
  std::filesystem::path vocab_file, merge_file;
  std::filesystem::path model;   ///< a file, or the folder that has it
  std::filesystem::path folder;  ///< --tokenizer: runtime::tokenizer_in says what it has
  std::optional<std::int64_t> vocabulary_size;
  std::string pattern;  ///< of a TikTokenizer
  std::int64_t special_tokens = 1000;
};

void declare(command_line& line, tokenizer_flags& to);

/// Throws usage_error for flags that are missing or do not belong together.
runtime::tokenizer_choice choice_of(const tokenizer_flags& flags);

/// Of the choice. Throws input_error when its files cannot be read.
std::unique_ptr<const runtime::tokenizer> make(const tokenizer_flags& flags);

}  // namespace troupe::command

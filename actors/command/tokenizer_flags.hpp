// Flags that choose a tokenizer, for training, preprocessing and `troupe tokenizer`.

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
  std::filesystem::path model;   ///< a file or its folder
  std::filesystem::path folder;  ///< --tokenizer; read by runtime::tokenizer_in
  std::optional<std::int64_t> vocabulary_size;
  std::string pattern;  ///< only for a TikTokenizer
  std::int64_t special_tokens = 1000;
};

void declare(command_line& line, tokenizer_flags& to);

/// Throws usage_error for flags that are missing or do not belong together.
runtime::tokenizer_choice choice_of(const tokenizer_flags& flags);

/// The tokenizer of choice_of. Throws input_error if its files cannot be read.
std::unique_ptr<const runtime::tokenizer> make(const tokenizer_flags& flags);

}  // namespace troupe::command

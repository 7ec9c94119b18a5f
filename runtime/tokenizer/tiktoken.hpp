// Files of tiktoken: tokens by rank. Two forms: lines of a token in base64, a space and its rank,
// as OpenAI's and Llama 3's are; and a JSON list of {"rank", "token_bytes", "token_str"}, as
// Megatron-LM's TikTokenizer has it.

#pragma once

#include "runtime/tokenizer/tokenizer_parts.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe::runtime {

struct tiktoken_choice {
  /// Of lines: r50k_base, p50k_base, cl100k_base, o200k_base, llama3 or llama3.1. Of JSON: v1 or
  /// v2.
  std::string pattern;
  std::int32_t special_tokens = 1000;      ///< JSON: ids before the first rank
  std::int32_t vocabulary_size = 1 << 17;  ///< JSON: special tokens and the first ranks
};

struct tiktoken_parts {
  tokenizer_parts parts;
  std::string end_of_document;
};

/// Throws input_error that names the file, the line or element and what is wrong with it, and for a
/// pattern that is unknown or of the other form.
tiktoken_parts load_tiktoken(const std::filesystem::path& file, const tiktoken_choice& choice);

/// What the name of a file says: "cl100k_base.tiktoken" is cut as cl100k_base says. Empty where it
/// says nothing.
std::string tiktoken_pattern_of(const std::filesystem::path& file);

}  // namespace troupe::runtime

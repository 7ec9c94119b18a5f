// Reads tiktoken files: tokens by rank. There are two forms. OpenAI and Llama 3 use lines of a
// base64 token, a space and its rank. Megatron-LM's TikTokenizer uses a JSON list of {"rank",
// "token_bytes", "token_str"}.

#pragma once

#include "runtime/tokenizer/tokenizer_parts.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe::runtime {

struct tiktoken_choice {
  /// Files with lines: r50k_base, p50k_base, cl100k_base, o200k_base, llama3, llama3.1 or kimi.
  /// JSON files: v1 or v2.
  std::string pattern;
  std::int32_t special_tokens = 1000;      ///< JSON only: number of ids before the first rank
  std::int32_t vocabulary_size = 1 << 17;  ///< JSON only: special tokens plus ranks to use
};

struct tiktoken_parts {
  tokenizer_parts parts;
  std::string end_of_document;
};

/// The pattern of Moonlight and Kimi. Names of its 256 special tokens, and the end of a document,
/// are in the tokenizer_config.json beside the file.
inline constexpr const char* kimi_pattern = "kimi";

/// Throws input_error with the file, the line or element, and the cause, and for a pattern that is
/// unknown or of the other form.
tiktoken_parts load_tiktoken(const std::filesystem::path& file, const tiktoken_choice& choice);

/// Infers the pattern from the file name, as in "cl100k_base.tiktoken". Empty if unknown.
std::string tiktoken_pattern_of(const std::filesystem::path& file);

}  // namespace troupe::runtime

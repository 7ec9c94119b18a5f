// Reads a tokenizer.json of Hugging Face's tokenizers. docs/formats/tokenizer.md lists what is
// supported.

#pragma once

#include "runtime/tokenizer/tokenizer_parts.hpp"

#include <array>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe::runtime {

/// Throws input_error with the file, the part and the error or unsupported feature.
tokenizer_parts load_tokenizer_json(const std::filesystem::path& file);

/// Files beside a tokenizer.json that may name the end-of-document token.
inline constexpr std::array naming_end_of_document{"tokenizer_config.json",
                                                   "special_tokens_map.json"};

/// Returns the eos_token of such a file, else its sep_token, else nothing. Throws input_error if
/// the file is unreadable or malformed.
std::optional<std::string> end_of_document_in(const std::filesystem::path& file);

/// Returns the token of the first of these files beside `file` that names one, else nothing. Throws
/// as end_of_document_in does.
std::optional<std::string> named_end_of_document(const std::filesystem::path& file);

}  // namespace troupe::runtime

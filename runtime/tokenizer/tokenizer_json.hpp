// The file tokenizer.json of Hugging Face's tokenizers. docs/formats/tokenizer.md says what of it
// is supported.

#pragma once

#include "runtime/tokenizer/tokenizer_parts.hpp"

#include <array>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe::runtime {

/// Throws input_error that names the file, the part and what is wrong with it or not supported.
tokenizer_parts load_tokenizer_json(const std::filesystem::path& file);

/// The files beside a tokenizer.json that may name the token that ends a document.
inline constexpr std::array naming_end_of_document{"tokenizer_config.json",
                                                   "special_tokens_map.json"};

/// The token that one of them names: its eos_token, or else its sep_token. Nothing where it has
/// none. Throws input_error for a file that cannot be read or is not what it should be.
std::optional<std::string> end_of_document_in(const std::filesystem::path& file);

/// That of the first of these files beside `file` that has one. Nothing where none has. Throws as
/// end_of_document_in.
std::optional<std::string> named_end_of_document(const std::filesystem::path& file);

}  // namespace troupe::runtime

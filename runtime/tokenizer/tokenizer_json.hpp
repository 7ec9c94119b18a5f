// The file tokenizer.json of Hugging Face's tokenizers. docs/formats/tokenizer.md says what of it
// is supported.

#pragma once

#include "runtime/tokenizer/tokenizer_parts.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace troupe::runtime {

/// Throws input_error that names the file, the part and what is wrong with it or not supported.
tokenizer_parts load_tokenizer_json(const std::filesystem::path& file);

/// The token that ends a document by the eos_token, or else the sep_token, of
/// tokenizer_config.json or special_tokens_map.json beside `file`. Nothing where neither names one.
std::optional<std::string> named_end_of_document(const std::filesystem::path& file);

}  // namespace troupe::runtime

// The tokenizer in the metadata of a GGUF file ("tokenizer.ggml...."), and as a tokenizer.json of
// Hugging Face. docs/formats/gguf.md lists what is supported.

#pragma once

#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace troupe::runtime {

/// The texts of files; empty if the file has no tokenizer.
struct gguf_tokenizer_texts {
  std::string tokenizer;      ///< tokenizer.json
  std::string configuration;  ///< tokenizer_config.json
};

/// `metadata`: an object of all keys. Throws input_error, beginning with `where`, for a kind or a
/// word expression that is not known, and for lists that contradict each other.
gguf_tokenizer_texts tokenizer_of_gguf(const nlohmann::json& metadata, const std::string& where);

/// A tokenizer to write.
struct gguf_tokenizer_source {
  nlohmann::json tokenizer;      ///< tokenizer.json
  nlohmann::json configuration;  ///< tokenizer_config.json, or an empty object
  std::string chat_template;     ///< chat_template.jinja, or empty
  text_frame frame;
  std::optional<std::int32_t> end_of_document;
  std::int64_t vocabulary = 0;  ///< of the model: tokens that the tokenizer lacks are filled in
  std::string where;            ///< for errors
};

/// The metadata of a tokenizer. Throws input_error for one that GGUF cannot express.
nlohmann::ordered_json gguf_of_tokenizer(const gguf_tokenizer_source& from);

}  // namespace troupe::runtime

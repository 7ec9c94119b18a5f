// The simplest tokenizer, for tests of what tokenizes.

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <string>
#include <vector>

namespace troupe::tests {

/// The id of a byte is the byte; 256 ends a document; "bad" cannot be encoded.
class byte_tokenizer final : public runtime::tokenizer {
 public:
  void append(std::string_view text,
              std::vector<std::int32_t>& ids,
              runtime::special_tokens) const override {
    if (text == "bad")
      throw runtime::input_error("the text is bad");
    for (const char c : text)
      ids.push_back(static_cast<unsigned char>(c));
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    return {ids.begin(), ids.end()};
  }
  std::int32_t vocabulary_size() const override { return 257; }
  std::int32_t end_of_document() const override { return 256; }
  std::string kind() const override { return "bytes"; }
  runtime::digest fingerprint() const override { return {}; }
};

}  // namespace troupe::tests

// A tokenizer for tests and benchmarks: words are ids.

#pragma once

#include "runtime/tokenizer/tokenizer.hpp"

namespace troupe::runtime {

/// A tokenizer for tests and benchmarks. Its texts are decimal ids between white space, "17 4 96".
/// The last id ends a document.
class null_tokenizer : public tokenizer {
 public:
  static constexpr const char* type_name = "NullTokenizer";

  /// Throws input_error unless `vocabulary_size` is 1 or more.
  explicit null_tokenizer(std::int32_t vocabulary_size);

  /// Throws input_error for words that are not numbers and for ids outside the vocabulary.
  void append(std::string_view text,
              std::vector<std::int32_t>& ids,
              special_tokens specials = special_tokens::as_text) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;  ///< "17 4 96"

  std::int32_t vocabulary_size() const override { return size_; }
  std::int32_t end_of_document() const override { return size_ - 1; }
  std::string kind() const override { return type_name; }
  digest fingerprint() const override;

 private:
  std::int32_t size_;
};

}  // namespace troupe::runtime

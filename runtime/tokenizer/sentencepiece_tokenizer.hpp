// The tokenizer of a SentencePiece model file.

#pragma once

#include "runtime/tokenizer/added_tokens.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <filesystem>
#include <memory>
#include <string>

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace troupe::runtime {

/// A SentencePiece model (Kudo and Richardson 2018, arXiv:1808.06226), run by the SentencePiece
/// library. Ids and texts are the library's. Bytes that are not valid UTF-8 become U+FFFD.
///
/// With special_tokens::recognised it finds the model's control symbols ("<s>", "</s>") and encodes
/// each text between them separately. The library alone treats them as plain text.
class sentencepiece_tokenizer : public tokenizer {
 public:
  /// `kind`: a tokenizer_choice::type. Throws input_error if the library rejects the file or the
  /// model has no end-of-sentence symbol.
  sentencepiece_tokenizer(const std::filesystem::path& model, std::string kind);
  ~sentencepiece_tokenizer() override;

  void append(std::string_view text,
              std::vector<std::int32_t>& ids,
              special_tokens specials = special_tokens::as_text) const override;

  /// Control symbols decode to nothing, as in the library.
  std::string decode(std::span<const std::int32_t> ids) const override;

  std::string piece(std::int32_t id, std::optional<std::int32_t> before) const override;
  std::string token(std::int32_t id) const override;
  bool is_special(std::int32_t id) const override;
  std::int32_t vocabulary_size() const override { return size_; }
  std::int32_t end_of_document() const override { return end_; }
  std::string kind() const override { return kind_; }
  digest fingerprint() const override { return fingerprint_; }

 private:
  void require_id(std::int32_t id) const;
  void append_text(std::string_view text, std::vector<std::int32_t>& ids) const;

  std::string kind_;
  std::unique_ptr<const sentencepiece::SentencePieceProcessor> library_;
  digest fingerprint_;
  std::int32_t size_ = 0, end_ = 0;
  std::unique_ptr<const added_tokens> controls_;
};

}  // namespace troupe::runtime

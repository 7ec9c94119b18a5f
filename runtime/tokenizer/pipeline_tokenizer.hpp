// The tokenizer of a tokenizer.json file of Hugging Face.

#pragma once

#include "runtime/tokenizer/tokenizer.hpp"
#include "runtime/tokenizer/tokenizer_parts.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace troupe::runtime {

/// A tokenizer made of the stages of a tokenizer.json. It finds added tokens, normalizes the text
/// between them, splits it into words (word_splitter.hpp) and encodes each word
/// (subword_model.hpp). For valid UTF-8, ids and texts equal those of Hugging Face's tokenizers
/// without truncation. Their encode_special_tokens is special_tokens::as_text.
///
/// In a byte-level model a byte that is not part of valid UTF-8 is a word of its own and separates
/// the texts on both sides. Without a normalizer, any bytes then survive encoding and decoding.
/// Other models replace each maximal invalid subpart by U+FFFD (Unicode Standard, section 3.9).
class pipeline_tokenizer : public tokenizer {
 public:
  /// `kind`: a tokenizer_choice::type. `end_of_document`: the content of a token; empty if no token
  /// ends documents. Throws input_error if the token does not exist.
  pipeline_tokenizer(tokenizer_parts parts,
                     const std::optional<std::string>& end_of_document,
                     std::string kind = "HuggingFaceTokenizer");

  void append(std::string_view text,
              std::vector<std::int32_t>& ids,
              special_tokens specials = special_tokens::as_text) const override;

  /// Ids without a token decode to nothing.
  std::string decode(std::span<const std::int32_t> ids) const override;

  bool has_own_pieces() const override { return !decoder_.looks_ahead(); }
  std::string token(std::int32_t id) const override {
    return joined({&id, 1}, parts_.vocabulary.tokens);
  }
  bool is_special(std::int32_t id) const override;
  text_frame frame() const override { return parts_.frame; }
  std::int32_t vocabulary_size() const override { return std::int32_t(texts_.size()); }
  std::int32_t end_of_document() const override;
  bool names_end_of_document() const override { return parts_.vocabulary.end_of_document >= 0; }
  std::string kind() const override { return kind_; }
  /// Equals the fingerprint of a bpe_tokenizer with the same behaviour.
  digest fingerprint() const override { return fingerprint_; }
  std::optional<digest> fingerprint_before_adding(std::int32_t first) const override;

 private:
  struct call;

  tokenizer_parts parts_;
  std::string kind_;
  digest fingerprint_;
  enum class words { bytes, characters_of_bytes, texts } words_;
  normalizer normal_;
  added_tokens before_, after_;  ///< searched before and after normalization
  word_splitter cut_;
  std::unique_ptr<const subword_model> model_;
  text_decoder decoder_;
  std::vector<std::string> texts_;  ///< by id: token, or its bytes if the decoder is byte-level
  std::vector<bool> special_;       ///< by id
  mutable worker_pool workers_;
};

/// Loads a tokenizer.json, given by its path or its folder. Throws input_error as
/// load_tokenizer_json does.
std::unique_ptr<const tokenizer> make_json_tokenizer(const std::filesystem::path& file_or_folder);

/// Returns the path of the tokenizer.json, given by its path or its folder.
std::filesystem::path tokenizer_json_in(const std::filesystem::path& file_or_folder);

}  // namespace troupe::runtime

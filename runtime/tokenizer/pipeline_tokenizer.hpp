#pragma once

#include "runtime/tokenizer/tokenizer.hpp"
#include "runtime/tokenizer/tokenizer_parts.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace troupe::runtime {

/// A tokenizer of parts: added tokens are found, what lies between them is normalized and cut into
/// words (word_splitter.hpp), a model makes the ids of each word (subword_model.hpp). Ids and texts
/// of valid UTF-8 are those of Hugging Face's tokenizers without truncation, and its
/// encode_special_tokens is special_tokens::as_text.
///
/// Where words are bytes, a byte that is no part of valid UTF-8 is a word of its own, and what
/// stands on either side of it is a text by itself; without a normalizer any bytes then decode to
/// what they were. For other models what is not valid becomes U+FFFD, one for each maximal part of
/// a character (Unicode Standard, section 3.9).
class pipeline_tokenizer : public tokenizer {
 public:
  /// `kind`: as in tokenizer_choice::type. `end_of_document`: the content of a token, or nothing
  /// where none ends documents. Throws input_error where there is no such token.
  pipeline_tokenizer(tokenizer_parts parts,
                     const std::optional<std::string>& end_of_document,
                     std::string kind = "HuggingFaceTokenizer");

  void append(std::string_view text,
              std::vector<std::int32_t>& ids,
              special_tokens specials = special_tokens::as_text) const override;

  /// Ids that no token has decode to nothing.
  std::string decode(std::span<const std::int32_t> ids) const override;

  bool is_special(std::int32_t id) const override;
  text_frame frame() const override { return parts_.frame; }
  std::int32_t vocabulary_size() const override { return std::int32_t(texts_.size()); }
  std::int32_t end_of_document() const override;
  bool names_end_of_document() const override { return parts_.vocabulary.end_of_document >= 0; }
  std::string kind() const override { return kind_; }
  /// That of a bpe_tokenizer where it does the same.
  digest fingerprint() const override { return fingerprint_; }
  std::optional<digest> fingerprint_before_adding(std::int32_t first) const override;

 private:
  struct call;

  tokenizer_parts parts_;
  std::string kind_;
  digest fingerprint_;
  enum class words { bytes, characters_of_bytes, texts } words_;
  normalizer normal_;
  added_tokens before_, after_;  ///< found before and after the text is normalized
  word_splitter cut_;
  std::unique_ptr<const subword_model> model_;
  text_decoder decoder_;
  std::vector<std::string> texts_;  ///< by id: the token, or what it decodes to by itself
  std::vector<bool> special_;       ///< by id
  mutable worker_pool workers_;
};

/// Of a file tokenizer.json, or of the folder that has one. Throws input_error as
/// load_tokenizer_json.
std::unique_ptr<const tokenizer> make_json_tokenizer(const std::filesystem::path& file_or_folder);

/// The file that is meant: in the folder, or itself.
std::filesystem::path tokenizer_json_in(const std::filesystem::path& file_or_folder);

}  // namespace troupe::runtime

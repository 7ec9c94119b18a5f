#pragma once

#include "runtime/tokenizer/bpe_merger.hpp"
#include "runtime/tokenizer/tokenizer.hpp"
#include "runtime/tokenizer/tokenizer_json.hpp"

#include <functional>
#include <string_view>
#include <unordered_map>

namespace troupe::runtime {

/// A byte-level BPE as a tokenizer.json describes it: added tokens are found, what lies between
/// them is normalized and cut into words (word_splitter.hpp), words are merged (bpe_merger.hpp).
/// The ids of valid UTF-8 are those of Hugging Face's tokenizers without post-processor and
/// truncation, and its encode_special_tokens is special_tokens::as_text.
///
/// A byte that is no part of valid UTF-8 is a word of its own, and what stands on either side of it
/// is a text by itself. Without a normalizer any bytes decode to what they were.
class json_tokenizer : public tokenizer {
 public:
  static constexpr const char* type_name = "HuggingFaceTokenizer";

  /// `end_of_document`: the content of a token. Throws input_error where there is none.
  json_tokenizer(tokenizer_json file, const std::string& end_of_document);

  void append(std::string_view text,
              std::vector<std::int32_t>& ids,
              special_tokens specials = special_tokens::as_text) const override;

  /// Ids that no token has decode to nothing.
  std::string decode(std::span<const std::int32_t> ids) const override;

  std::int32_t vocabulary_size() const override { return std::int32_t(bytes_.size()); }
  std::int32_t end_of_document() const override { return file_.vocabulary.end_of_document; }
  std::string kind() const override { return type_name; }
  /// That of a bpe_tokenizer where it does the same.
  digest fingerprint() const override { return fingerprint_; }

 private:
  struct call;

  tokenizer_json file_;
  std::vector<std::string> bytes_;  ///< by id: what it decodes to
  digest fingerprint_;
  added_tokens before_, after_;  ///< found before and after the text is normalized
  word_splitter cut_;
  bpe_merger merger_;
  std::unordered_map<std::string_view, std::int32_t> whole_;  ///< words that no merge is asked for
  mutable bpe_worker_pool workers_;
};

/// Of a file tokenizer.json, or of the folder that has one. Throws input_error as
/// load_tokenizer_json, and when nothing names the token that ends a document.
std::unique_ptr<const tokenizer> make_json_tokenizer(const std::filesystem::path& file_or_folder);

/// The file that is meant: in the folder, or itself.
std::filesystem::path tokenizer_json_in(const std::filesystem::path& file_or_folder);

}  // namespace troupe::runtime

// The tokenizer interface: encodes text to token ids and decodes it.

#pragma once

#include "runtime/core/hash.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Treatment of special tokens such as "<|endoftext|>" inside a text.
enum class special_tokens {
  as_text,     ///< as plain text: for untrusted text
  recognised,  ///< as tokens: for prompts and trusted data
};

/// Tokens that a model expects around a text, such as "[CLS]" and "[SEP]".
struct text_frame {
  std::vector<std::int32_t> before, after;
};

/// Const methods are thread-safe.
class tokenizer {
 public:
  virtual ~tokenizer() = default;

  /// Appends the ids of `text` to `ids`. Throws input_error if the text cannot be encoded; the
  /// content of `ids` is then unspecified.
  virtual void append(std::string_view text,
                      std::vector<std::int32_t>& ids,
                      special_tokens specials = special_tokens::as_text) const = 0;

  std::vector<std::int32_t> encode(std::string_view text,
                                   special_tokens specials = special_tokens::as_text) const {
    std::vector<std::int32_t> ids;
    append(text, ids, specials);
    return ids;
  }

  /// Throws input_error for an id outside [0, vocabulary_size()). A single id may decode to a part
  /// of a character, so the result may not be valid UTF-8.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  /// The bytes that a token adds to a text after the token `before`, or as its first one. Joined,
  /// they are the decoded text, but for blanks before it. Bytes that are not valid UTF-8 are kept.
  /// Throws like decode.
  virtual std::string piece(std::int32_t id, std::optional<std::int32_t> before) const;

  /// True if a later token adds the same bytes after all others.
  virtual bool has_own_pieces() const { return true; }

  /// A token as the tokenizer's files write it, such as "##ing". Throws like decode.
  virtual std::string token(std::int32_t id) const { return decode({&id, 1}); }

  /// True for special tokens, which are not part of the readable text.
  virtual bool is_special(std::int32_t id) const { return id == end_of_document(); }

  /// Tokens to add around the ids of a text; append() does not add them.
  virtual text_frame frame() const { return {}; }

  virtual std::int32_t vocabulary_size() const = 0;  ///< ids are 0 ... vocabulary_size() - 1
  /// Returns the id that ends each document. Throws input_error if the files name none.
  virtual std::int32_t end_of_document() const = 0;
  virtual bool names_end_of_document() const { return true; }
  virtual std::string kind() const = 0;  ///< as in tokenizer_choice::type

  /// Digest of everything that affects ids. It is part of the identity of a run and of a data set,
  /// and the same on every machine.
  virtual digest fingerprint() const = 0;

  /// Fingerprint of the base tokenizer without the added tokens from id `first` on. Ids below
  /// `first` mean the same in both. Empty if an id from `first` on is not an added token.
  virtual std::optional<digest> fingerprint_before_adding(std::int32_t first) const {
    (void)first;
    return std::nullopt;
  }
};

/// Concatenates text[id] for all ids. Throws input_error for an id outside `text`.
std::string joined(std::span<const std::int32_t> ids, const std::vector<std::string>& text);

/// Groups of tokenizer types that read the same files.
enum class tokenizer_family {
  null,            ///< NullTokenizer: none
  gpt2,            ///< GPT2BPETokenizer: vocab.json and merges.txt
  hub,             ///< HuggingFaceTokenizer: tokenizer.json
  bert,            ///< BertWordPieceLowerCase and BertWordPieceCase: vocab.txt
  tiktoken,        ///< TikTokenizer: tokens by rank
  sentence_piece,  ///< SentencePieceTokenizer, GPTSentencePieceTokenizer, Llama2Tokenizer: a model
};

/// Returns the family of a tokenizer type, named as in Megatron-LM; nothing for unknown names.
std::optional<tokenizer_family> family_of(const std::string& type);

/// All tokenizer types.
const std::vector<std::string>& tokenizer_types();

/// Tokenizer settings; fields are named after Megatron-LM's flags.
struct tokenizer_choice {
  std::string type = {};  ///< one of tokenizer_types()
  /// NullTokenizer: number of ids. TikTokenizer with JSON: special tokens plus ranks; 0 means
  /// 131,072.
  std::int32_t vocabulary_size = 0;
  std::filesystem::path vocab_file = {};  ///< GPT2BPETokenizer: vocab.json; BERT's: vocab.txt
  std::filesystem::path merge_file = {};  ///< GPT2BPETokenizer: merges.txt
  /// HuggingFaceTokenizer: tokenizer.json; else tiktoken's or SentencePiece's file.
  std::filesystem::path model = {};
  std::string pattern = {};            ///< TikTokenizer: see tiktoken_choice
  std::int32_t special_tokens = 1000;  ///< TikTokenizer with JSON
};

/// True if the folder has a file that tokenizer_in looks for.
bool has_tokenizer(const std::filesystem::path& folder);

/// Finds the tokenizer in a folder of the Hugging Face Hub or of `troupe tokenizer train`. Takes
/// the first of: tokenizer.json; vocab.json with merges.txt; tokenizer.model (SentencePiece or
/// tiktoken); BERT's vocab.txt. Throws input_error if there is none, or if a setting there shows
/// that other, missing files affect the ids.
tokenizer_choice tokenizer_in(const std::filesystem::path& folder);

/// `tokenizer_in` of a model's folder. If the folder has none, a NullTokenizer of `vocabulary_size`
/// ids, whose words are ids.
tokenizer_choice tokenizer_of_model(const std::filesystem::path& folder,
                                    std::int64_t vocabulary_size);

/// Creates a tokenizer. Throws input_error for an unknown type, a missing field and malformed
/// files.
std::unique_ptr<const tokenizer> make_tokenizer(const tokenizer_choice& choice);

}  // namespace troupe::runtime

// Text to token ids and back.

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

/// What "<|endoftext|>", or another special token, inside a text means.
enum class special_tokens {
  as_text,     ///< ordinary characters: right for text that others wrote
  recognised,  ///< the token: right for prompts and data that we wrote
};

/// What a model expects around a text: "[CLS]" and "[SEP]", say.
struct text_frame {
  std::vector<std::int32_t> before, after;
};

/// Every const method may be called from several threads at once.
class tokenizer {
 public:
  virtual ~tokenizer() = default;

  /// Appends the ids of `text` to `ids`. Throws input_error when the text cannot be encoded; `ids`
  /// then holds an unspecified part.
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
  /// of a character; only the whole is sure to be UTF-8.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  /// Of a special token, which is no part of the text that people read.
  virtual bool is_special(std::int32_t id) const { return id == end_of_document(); }

  /// What is to be put around the ids of a text; `append` does not.
  virtual text_frame frame() const { return {}; }

  virtual std::int32_t vocabulary_size() const = 0;  ///< ids are 0 ... vocabulary_size() - 1
  /// The id that ends each document. Throws input_error where the files name none.
  virtual std::int32_t end_of_document() const = 0;
  virtual bool names_end_of_document() const { return true; }
  virtual std::string kind() const = 0;              ///< as in tokenizer_choice::type

  /// Stands for everything in the tokenizer's files that decides which text becomes which ids: part
  /// of the identity of a run and of a data set. Independent of the machine.
  virtual digest fingerprint() const = 0;

  /// The fingerprint of the tokenizer of which this one is, with its ids from `first` on added:
  /// that gives the ids below the same meaning. Nothing where those from `first` on are not added
  /// tokens.
  virtual std::optional<digest> fingerprint_before_adding(std::int32_t first) const {
    (void)first;
    return std::nullopt;
  }
};

/// What ids stand for by `text`, of which each id has one. Throws input_error for an id beyond.
std::string joined(std::span<const std::int32_t> ids, const std::vector<std::string>& text);

/// Which files a type of tokenizer has.
enum class tokenizer_family {
  null,            ///< NullTokenizer: none
  gpt2,            ///< GPT2BPETokenizer: vocab.json and merges.txt
  hub,             ///< HuggingFaceTokenizer: tokenizer.json
  bert,            ///< BertWordPieceLowerCase and BertWordPieceCase: vocab.txt
  tiktoken,        ///< TikTokenizer: tokens by rank
  sentence_piece,  ///< SentencePieceTokenizer, GPTSentencePieceTokenizer, Llama2Tokenizer: a model
};

/// Of a type of tokenizer by Megatron-LM's name; nothing for another name.
std::optional<tokenizer_family> family_of(const std::string& type);

/// All of these names.
const std::vector<std::string>& tokenizer_types();

/// What a configuration says about its tokenizer; the fields are named after Megatron's flags.
struct tokenizer_choice {
  std::string type = {};  ///< one of tokenizer_types()
  /// NullTokenizer: its ids. TikTokenizer of JSON: special tokens and ranks; 0: 131,072.
  std::int32_t vocabulary_size = 0;
  std::filesystem::path vocab_file = {};  ///< GPT2BPETokenizer: vocab.json; BERT's: vocab.txt
  std::filesystem::path merge_file = {};  ///< GPT2BPETokenizer: merges.txt
  /// HuggingFaceTokenizer: tokenizer.json; else tiktoken's or SentencePiece's file.
  std::filesystem::path model = {};
  std::string pattern = {};            ///< TikTokenizer: tiktoken_choice says which
  std::int32_t special_tokens = 1000;  ///< TikTokenizer of JSON
};

/// Whether the folder has one of the files that tokenizer_in looks for.
bool has_tokenizer(const std::filesystem::path& folder);

/// What a folder of the Hugging Face Hub, or of `troupe tokenizer train`, holds, the first of:
/// tokenizer.json; vocab.json with merges.txt; tokenizer.model, of SentencePiece or tiktoken;
/// BERT's vocab.txt. Throws input_error where there is none, and where the folder says that another
/// file, which is not there, decides what its ids are.
tokenizer_choice tokenizer_in(const std::filesystem::path& folder);

/// `tokenizer_in` of a model's folder; where it has none, ids are words: a NullTokenizer of
/// `vocabulary_size` ids.
tokenizer_choice tokenizer_of_model(const std::filesystem::path& folder,
                                    std::int64_t vocabulary_size);

/// Throws input_error for an unknown type, a field that the type needs and does not have, and
/// malformed files.
std::unique_ptr<const tokenizer> make_tokenizer(const tokenizer_choice& choice);

}  // namespace troupe::runtime

// Text to token ids and back.

#pragma once

#include "runtime/core/hash.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
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

  virtual std::int32_t vocabulary_size() const = 0;  ///< ids are 0 ... vocabulary_size() - 1
  virtual std::int32_t end_of_document() const = 0;  ///< the id that ends each document
  virtual std::string kind() const = 0;              ///< as in tokenizer_choice::type

  /// Stands for everything in the tokenizer's files that decides which text becomes which ids: part
  /// of the identity of a run and of a data set. Independent of the machine.
  virtual digest fingerprint() const = 0;
};

/// What ids stand for by `text`, of which each id has one. Throws input_error for an id beyond.
std::string joined(std::span<const std::int32_t> ids, const std::vector<std::string>& text);

/// What a configuration says about its tokenizer; the fields are named after Megatron's flags.
struct tokenizer_choice {
  std::string type = {};  ///< "NullTokenizer", "GPT2BPETokenizer" or "HuggingFaceTokenizer"
  std::int32_t vocabulary_size = 0;       ///< NullTokenizer only
  std::filesystem::path vocab_file = {};  ///< GPT2BPETokenizer only: vocab.json
  std::filesystem::path merge_file = {};  ///< GPT2BPETokenizer only: merges.txt
  std::filesystem::path model = {};       ///< HuggingFaceTokenizer only: tokenizer.json
};

/// What a folder of the Hugging Face Hub, or of `troupe tokenizer train`, holds: tokenizer.json, or
/// else vocab.json and merges.txt. Throws input_error where there is neither, and where the folder
/// says that its texts are not cut as GPT-2's are, which only a tokenizer.json would say how.
tokenizer_choice tokenizer_in(const std::filesystem::path& folder);

/// Throws input_error for an unknown type, a field that the type needs and does not have, and
/// malformed files.
std::unique_ptr<const tokenizer> make_tokenizer(const tokenizer_choice& choice);

}  // namespace troupe::runtime

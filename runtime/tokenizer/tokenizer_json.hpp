// The file tokenizer.json of Hugging Face's tokenizers: a byte-level BPE and all that surrounds it.
// docs/formats/tokenizer.md says what of it is supported.

#pragma once

#include "runtime/tokenizer/added_tokens.hpp"
#include "runtime/tokenizer/bpe_vocabulary.hpp"
#include "runtime/tokenizer/normalizer.hpp"
#include "runtime/tokenizer/word_splitter.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct tokenizer_json {
  std::vector<added_token> added;
  normalizer normal;
  std::vector<word_splitter::rule> rules;
  /// Tokens by id, in the characters of byte_alphabet.hpp; added ones as they are. Ids that no
  /// token has are empty. `end_of_document` is not set.
  bpe_vocabulary vocabulary;
  std::vector<std::int32_t> whole_words;  ///< tokens that a word becomes at once: "ignore_merges"
  /// Cuts and merges as GPT-2 does, and adds nothing but "<|endoftext|>" or nothing at all: what
  /// bpe_tokenizer does as well.
  bool as_gpt2 = false;
  std::string configuration;  ///< of all parts but the vocabulary, for fingerprints
};

/// Throws input_error that names the file, the part and what is wrong with it or not supported: a
/// model other than BPE on bytes, or a normalizer, a pre-tokenizer or a decoder of another kind.
tokenizer_json load_tokenizer_json(const std::filesystem::path& file);

/// The token that ends a document by the eos_token of tokenizer_config.json or
/// special_tokens_map.json beside `file`. Nothing where neither names one.
std::optional<std::string> named_end_of_document(const std::filesystem::path& file);

}  // namespace troupe::runtime

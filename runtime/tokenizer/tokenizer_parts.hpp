// All that makes ids of a text and a text of ids, whichever file said it: what pipeline_tokenizer
// puts one behind the other.

#pragma once

#include "runtime/tokenizer/added_tokens.hpp"
#include "runtime/tokenizer/bpe_merger.hpp"
#include "runtime/tokenizer/normalizer.hpp"
#include "runtime/tokenizer/piece_bpe.hpp"
#include "runtime/tokenizer/text_decoder.hpp"
#include "runtime/tokenizer/tokenizer.hpp"
#include "runtime/tokenizer/unigram.hpp"
#include "runtime/tokenizer/word_piece.hpp"
#include "runtime/tokenizer/word_splitter.hpp"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace troupe::runtime {

/// Words are bytes, each of which is a token.
struct byte_bpe_parts {
  std::vector<std::int32_t> whole_words;  ///< tokens that a word becomes at once: "ignore_merges"
  merge_order order = merge_order::one_by_one;
};

struct word_level_parts {
  std::optional<std::int32_t> unknown;
};

struct tokenizer_parts {
  std::vector<added_token> added;
  std::vector<normalizer::step> normal;
  std::vector<word_splitter::rule> rules;
  /// Tokens by id as the file writes them, added ones as they are. Ids that no token has are empty.
  /// Merges of BPEs; `byte_ids` of byte_bpe_parts. `end_of_document` is not set.
  bpe_vocabulary vocabulary;
  token_map own;  ///< tokens of the model, without those that were only added
  std::variant<byte_bpe_parts,
               piece_bpe_settings,
               unigram_settings,
               word_piece_settings,
               word_level_parts>
      model;
  std::vector<text_decoder::step> decoding;
  text_frame frame;
  bool cut_as_gpt2 = false;  ///< cuts and merges as GPT-2 does
};

/// Cuts and merges as GPT-2 does, and adds nothing but "<|endoftext|>" or nothing at all: what
/// bpe_tokenizer does as well.
bool does_as_gpt2(const tokenizer_parts& x);

/// Everything that decides about ids but the tokens and the merges, a line each: what a file leaves
/// to its defaults does not matter.
std::string configuration_of(const tokenizer_parts& x);

}  // namespace troupe::runtime

// The parts of a pipeline_tokenizer, independent of the file format they come from.

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

/// Byte-level BPE: every byte has a token.
struct byte_bpe_parts {
  std::vector<std::int32_t> whole_words;  ///< words that skip the merges: "ignore_merges"
  merge_order order = merge_order::one_by_one;
};

struct word_level_parts {
  std::optional<std::int32_t> unknown;
};

struct tokenizer_parts {
  std::vector<added_token> added;
  std::vector<normalizer::step> normal;
  std::vector<word_splitter::rule> rules;
  /// Tokens by id as written in the file, added tokens unchanged; unused ids are empty. `merges` is
  /// set for BPEs, `byte_ids` for byte_bpe_parts. `end_of_document` is not set.
  bpe_vocabulary vocabulary;
  token_map own;  ///< tokens of the model, without those that are only added
  std::variant<byte_bpe_parts,
               piece_bpe_settings,
               unigram_settings,
               word_piece_settings,
               word_level_parts>
      model;
  std::vector<text_decoder::step> decoding;
  text_frame frame;
  bool cut_as_gpt2 = false;  ///< splits and merges as GPT-2 does
};

/// True if bpe_tokenizer gives the same ids: it splits and merges as GPT-2 does and adds at most
/// "<|endoftext|>".
bool does_as_gpt2(const tokenizer_parts& x);

/// Canonical text of everything that affects ids, except tokens and merges, one line each. Explicit
/// default values do not change it.
std::string configuration_of(const tokenizer_parts& x);

}  // namespace troupe::runtime

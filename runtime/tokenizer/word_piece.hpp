// WordPiece as in BERT (Wu et al. 2016, arXiv:1609.08144), and whole-word tokens.

#pragma once

#include "runtime/tokenizer/subword_model.hpp"
#include "runtime/tokenizer/token_map.hpp"

#include <optional>

namespace troupe::runtime {

struct word_piece_settings {
  std::optional<std::int32_t> unknown;  ///< token of words that the pieces do not cover
  std::string prefix = "##";            ///< before each piece except the first of a word
  std::size_t longest_word = 100;       ///< in characters; longer words are unknown
};

/// Splits a word greedily: repeatedly takes the longest matching piece.
class word_piece : public subword_model {
 public:
  word_piece(token_map tokens, word_piece_settings settings);

  std::unique_ptr<subword_worker> make_worker() const override;
  void append(std::string_view word,
              std::vector<std::int32_t>& ids,
              subword_worker& by) const override;

 private:
  void append_new(std::string_view word, std::vector<std::int32_t>& ids) const;
  void append_unknown(std::string_view word, std::vector<std::int32_t>& ids) const;

  token_map tokens_;
  word_piece_settings settings_;
  std::size_t longest_ = 0;  ///< longest piece, in bytes
};

/// Maps whole words to tokens.
class word_level : public subword_model {
 public:
  word_level(token_map tokens, std::optional<std::int32_t> unknown);

  std::unique_ptr<subword_worker> make_worker() const override;
  void append(std::string_view word,
              std::vector<std::int32_t>& ids,
              subword_worker& by) const override;

 private:
  token_map tokens_;
  std::optional<std::int32_t> unknown_;
};

}  // namespace troupe::runtime

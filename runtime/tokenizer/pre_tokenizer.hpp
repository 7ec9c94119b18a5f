// GPT-2's cut of a text into words, inside which byte pairs are merged and across which never:
//
// gpt2_words below, with \s, \p{L} and \p{N} as expression.hpp has them.
//
// A byte that is no part of valid UTF-8 (RFC 3629) is a word of its own, and what stands on either
// side of it is cut as if it were a whole text. The words of any text, joined, are that text.

#pragma once

#include "runtime/tokenizer/expression.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe::runtime {

inline constexpr const char* gpt2_words
    = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Length of the longest prefix that is valid UTF-8: no surrogates, no overlong forms.
std::size_t valid_utf8_prefix(std::string_view text);

/// Length of what stands at the front of a text that is no valid UTF-8 there: the longest beginning
/// of a character, or one byte (Unicode Standard, section 3.9, "maximal subparts").
std::size_t invalid_utf8_prefix(std::string_view text);

/// The text with U+FFFD for each of these.
std::string with_replacements(std::string_view text);

/// The compiled expression. Every const method may be called from several threads at once.
class pre_tokenizer {
  friend class word_cursor;
  expression words_{gpt2_words};
};

/// Walks over the words of one text. One thread uses it; text and pre_tokenizer must outlive it.
class word_cursor {
 public:
  word_cursor(const pre_tokenizer& cut, std::string_view text);

  /// The next word, a part of the text; empty after the last.
  std::string_view next();

 private:
  expression_search search_;
  std::string_view valid_;  ///< what is left of the valid stretch
  std::size_t at_ = 0;      ///< next word's offset in `valid_`
  std::string_view rest_;   ///< what follows the valid stretch
};

}  // namespace troupe::runtime

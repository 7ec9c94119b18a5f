// GPT-2's pre-tokenizer: splits a text into words. BPE merges bytes within a word, never across
// words.
//
// It uses the pattern gpt2_words, with \s, \p{L} and \p{N} as in expression.hpp. A byte that is not
// part of valid UTF-8 (RFC 3629) is a word of its own and separates the texts on both sides. The
// concatenated words equal the text.

#pragma once

#include "runtime/tokenizer/expression.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe::runtime {

inline constexpr const char* gpt2_words
    = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Returns the length of the longest valid UTF-8 prefix: no surrogates, no overlong forms.
std::size_t valid_utf8_prefix(std::string_view text);

/// Returns the length of the invalid subpart at the front of a text. It is the longest prefix of a
/// valid character, or one byte (Unicode Standard, section 3.9, "maximal subparts").
std::size_t invalid_utf8_prefix(std::string_view text);

/// Replaces each invalid subpart by U+FFFD.
std::string with_replacements(std::string_view text);

/// The compiled pattern. Const methods are thread-safe.
class pre_tokenizer {
  friend class word_cursor;
  expression words_{gpt2_words};
};

/// Iterates over the words of one text. Text and pre_tokenizer must outlive it. Not thread-safe.
class word_cursor {
 public:
  word_cursor(const pre_tokenizer& cut, std::string_view text);

  /// Returns the next word as a view of the text; empty at the end.
  std::string_view next();

 private:
  expression_search search_;
  std::string_view valid_;  ///< rest of the current valid stretch
  std::size_t at_ = 0;      ///< next word's offset in `valid_`
  std::string_view rest_;   ///< text after that stretch
};

}  // namespace troupe::runtime

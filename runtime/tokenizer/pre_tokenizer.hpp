// GPT-2's cut of a text into words, inside which byte pairs are merged and across which never:
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// \s is Unicode's White_Space: U+0009-000D, 0020, 0085, 00A0, 1680, 2000-200A, 2028, 2029, 202F,
// 205F, 3000. \p{L} and \p{N} follow the Unicode version of the installed PCRE2.
//
// A byte that is no part of valid UTF-8 (RFC 3629) is a word of its own, and what stands on either
// side of it is cut as if it were a whole text. The words of any text, joined, are that text.

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Length of the longest prefix that is valid UTF-8: no surrogates, no overlong forms.
std::size_t valid_utf8_prefix(std::string_view text);

/// The compiled expression. Every const method may be called from several threads at once.
class pre_tokenizer {
 public:
  pre_tokenizer();

 private:
  friend class word_cursor;
  std::shared_ptr<const void> code_;
};

/// Walks over the words of one text. One thread uses it; text and pre_tokenizer must outlive it.
class word_cursor {
 public:
  word_cursor(const pre_tokenizer& cut, std::string_view text);

  /// The next word, a part of the text; empty after the last.
  std::string_view next();

 private:
  const pre_tokenizer& cut_;
  std::shared_ptr<void> match_;
  std::string_view valid_;  ///< what is left of the valid stretch
  std::size_t at_ = 0;      ///< next word's offset in `valid_`
  std::string_view rest_;   ///< what follows the valid stretch
};

}  // namespace troupe::runtime

// Regular expressions as tokenizer files write them, for Oniguruma (Ruby's syntax), by PCRE2.
//
// Supported is what the two read alike, and what can be said to PCRE2 otherwise: \s, \S, \w, \W,
// \d, \D and \p{...} with Unicode's sets, ^ and $ at every line, classes within classes. What else
// they read differently is refused: other escapes, options but (?i:...), {,n}, {n,m}+ and {n}?.
// Properties follow the Unicode version of the installed PCRE2.

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

/// Within a class: \w of Rust's expressions (UTS #18), by which the library itself tells words
/// apart. Oniguruma's has fractions of Latin-1 and no joiners.
#define TROUPE_RUST_WORD_CHARACTERS                 \
  R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D})" \
  R"(\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})"

namespace troupe::runtime {

/// A compiled expression. Every const method may be called from several threads at once.
class expression {
 public:
  /// Throws input_error, with the pattern and what is wrong at which byte of it.
  explicit expression(std::string_view pattern);

  const std::string& pattern() const { return pattern_; }

 private:
  friend class expression_search;
  std::string pattern_;
  std::shared_ptr<const void> code_;
};

/// Finds what an expression matches, one text after the other. One thread; the expression outlives
/// it.
class expression_search {
 public:
  explicit expression_search(const expression& what);

  struct span {
    std::size_t begin, end;
  };

  /// The first match of `text`, which is valid UTF-8, that begins at or after `from`; one may be
  /// empty. Throws input_error when the search takes too long: a pattern that tries more than ten
  /// million ways.
  std::optional<span> find(std::string_view text, std::size_t from);

 private:
  const expression* what_;
  std::shared_ptr<void> match_, context_;
};

/// Where the character after that at `at` begins, in valid UTF-8; beyond the text after the last.
std::size_t next_character(std::string_view text, std::size_t at);

/// What `literal` matches, and nothing else: a pattern.
std::string pattern_of(std::string_view literal);

}  // namespace troupe::runtime

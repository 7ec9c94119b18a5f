// Regular expressions of tokenizer files. They are written for Oniguruma (Ruby syntax) and run by
// PCRE2.
//
// Supported: syntax with the same meaning in both, and \s, \S, \w, \W, \d, \D, \p{...}, ^, $ and
// nested classes, which are translated. Rejected: other escapes, options except (?i:...), {,n},
// {n,m}+ and {n}?. Character properties follow the Unicode version of the installed PCRE2.

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

/// Content of a class that equals \w in Rust's regex crate (UTS #18), by which Hugging Face's
/// tokenizers detect words. Unlike Oniguruma's \w, it has the joiners but no fractions of Latin-1.
#define TROUPE_RUST_WORD_CHARACTERS                 \
  R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D})" \
  R"(\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})"

namespace troupe::runtime {

/// A compiled expression. Const methods are thread-safe.
class expression {
 public:
  /// Throws input_error with the pattern, the error and its byte offset.
  explicit expression(std::string_view pattern);

  const std::string& pattern() const { return pattern_; }

 private:
  friend class expression_search;
  std::string pattern_;
  std::shared_ptr<const void> code_;
};

/// Searches texts for an expression, which must outlive it. Not thread-safe.
class expression_search {
 public:
  explicit expression_search(const expression& what);

  struct span {
    std::size_t begin, end;
  };

  /// Returns the first match that begins at or after `from`; it may be empty. `text` must be valid
  /// UTF-8. Throws input_error if the search exceeds ten million match steps.
  std::optional<span> find(std::string_view text, std::size_t from);

 private:
  const expression* what_;
  std::shared_ptr<void> match_, context_;
};

/// Returns the start of the character after the one at `at`, in valid UTF-8. At the last character
/// it returns the size of the text.
std::size_t next_character(std::string_view text, std::size_t at);

/// Returns a pattern that matches exactly `literal`.
std::string pattern_of(std::string_view literal);

}  // namespace troupe::runtime

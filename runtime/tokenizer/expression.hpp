// Regular expressions as tokenizer files write them, for Oniguruma and Rust's engines, by PCRE2.
//
// \s and \S are Unicode's White_Space, \w and \W letters, marks, decimal and letter-like numbers
// and connectors (UTS #18, annex C), \d is \p{Nd}. Properties follow the Unicode version of the
// installed PCRE2.

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

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

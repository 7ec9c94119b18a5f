// Converts tokens to text, as the "decoder" of a tokenizer.json describes (Hugging Face's
// tokenizers, decoders, version 0.23). Each step rewrites the list of tokens; the result is joined.

#pragma once

#include "runtime/tokenizer/expression.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::runtime {

/// Maps characters of byte_alphabet.hpp to bytes, in tokens that consist of them.
struct byte_level_decoding {};

/// Maps "<0x41>" to that byte.
struct byte_fallback_decoding {};

/// Turns space marks into blanks; removes those of the first token.
struct space_mark_decoding {
  std::string mark;
  bool first_removed = true;
};

/// Adds a blank before each token, or removes its prefix if it has one. `tidy` removes blanks
/// before punctuation.
struct word_piece_decoding {
  std::string prefix;
  bool tidy = true;
};

/// Turns the suffix into a blank; removes it from the last token.
struct suffix_decoding {
  std::string suffix;
};

struct replace_decoding {
  expression what;
  std::string by;
};

/// Removes up to `left` and `right` occurrences of a character from the ends of a token.
struct strip_decoding {
  std::string character;
  std::size_t left = 0, right = 0;
};

/// Joins all tokens.
struct fuse_decoding {};

/// Adds a blank between tokens; used if the file has no decoder.
struct blanks_between {};

class text_decoder {
 public:
  using step = std::variant<byte_level_decoding,
                            byte_fallback_decoding,
                            space_mark_decoding,
                            word_piece_decoding,
                            suffix_decoding,
                            replace_decoding,
                            strip_decoding,
                            fuse_decoding,
                            blanks_between>;

  explicit text_decoder(std::vector<step> steps) : steps_(std::move(steps)) {}

  /// Thread-safe. Keeps bytes that are not valid UTF-8; the library replaces them by U+FFFD.
  std::string decode(std::vector<std::string> tokens) const;

  /// True if each token decodes by itself, so that decode() only concatenates.
  bool by_token() const;

  /// True if a token's text depends on the tokens after it.
  bool looks_ahead() const;

 private:
  std::vector<step> steps_;
};

}  // namespace troupe::runtime

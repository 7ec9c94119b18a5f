// Tokens to text, as the decoder of a tokenizer.json says (Hugging Face's tokenizers, decoders,
// version 0.23): each step makes new tokens of those that the one before left; then they are
// joined.

#pragma once

#include "runtime/tokenizer/expression.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::runtime {

/// Characters of byte_alphabet.hpp become bytes, in tokens that have no others.
struct byte_level_decoding {};

/// "<0x41>" becomes that byte.
struct byte_fallback_decoding {};

/// Marks of a space become blanks, those of the first token nothing.
struct space_mark_decoding {
  std::string mark;
  bool first_removed = true;
};

/// A blank before each token, or no prefix where it has one; `tidy`: none before punctuation.
struct word_piece_decoding {
  std::string prefix;
  bool tidy = true;
};

/// The suffix becomes a blank, that of the last token nothing.
struct suffix_decoding {
  std::string suffix;
};

struct replace_decoding {
  expression what;
  std::string by;
};

/// At most so many of a character at each end of a token go.
struct strip_decoding {
  std::string character;
  std::size_t left = 0, right = 0;
};

/// The tokens become one.
struct fuse_decoding {};

/// A blank between tokens: what happens where a file has no decoder.
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

  /// Any thread. Bytes that are no valid UTF-8 stay; the library puts U+FFFD.
  std::string decode(std::vector<std::string> tokens) const;

  /// Each token means a text by itself, which `decode` joins.
  bool by_token() const;

 private:
  std::vector<step> steps_;
};

}  // namespace troupe::runtime

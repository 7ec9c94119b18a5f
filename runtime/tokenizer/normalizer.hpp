// What tokenizer.json does to a text before it is cut into words (Hugging Face's tokenizers,
// normalizers, version 0.23).

#pragma once

#include "runtime/core/hash.hpp"
#include "runtime/tokenizer/character_map.hpp"
#include "runtime/tokenizer/expression.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe::runtime {

/// Unicode Standard Annex #15.
enum class unicode_form { nfc, nfd, nfkc, nfkd };

struct lowercase {};  ///< every character by itself: a final sigma is as any other

struct replaced {
  expression what;
  std::string by;
};

struct prepended {
  std::string text;  ///< to a text that is not empty
};

struct stripped {
  bool left, right;  ///< of white space
};

/// Of BERT: without characters of the category "other", white space as blanks.
struct cleaned {};

/// Of BERT: blanks around each Chinese character.
struct spaced_ideographs {};

struct without_marks {
  bool nonspacing_only;  ///< of the category Mn; else of M
};

/// Of SentencePiece's "nmt" rules: without controls, what looks like white space as blanks.
struct nmt_cleaned {};

struct mapped_characters {
  std::shared_ptr<const character_map> by;
  digest content;  ///< of the table
};

/// Each byte as its character of byte_alphabet.hpp.
struct bytes_as_characters {};

class normalizer {
 public:
  using step = std::variant<unicode_form,
                            lowercase,
                            replaced,
                            prepended,
                            stripped,
                            cleaned,
                            spaced_ideographs,
                            without_marks,
                            nmt_cleaned,
                            mapped_characters,
                            bytes_as_characters>;

  normalizer() = default;
  explicit normalizer(std::vector<step> steps) : steps_(std::move(steps)) {}

  bool empty() const { return steps_.empty(); }

  /// Of valid UTF-8. Throws input_error for a text that becomes more than a hundred times as long.
  /// Any thread.
  std::string apply(std::string_view text) const;

 private:
  std::vector<step> steps_;
};

}  // namespace troupe::runtime

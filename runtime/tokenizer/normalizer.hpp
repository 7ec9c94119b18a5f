// Normalizers of a tokenizer.json: they change a text before it is split into words (Hugging Face's
// tokenizers, normalizers, version 0.23).

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

struct lowercase {};  ///< per character, so a final sigma is not special

struct replaced {
  expression what;
  std::string by;
};

struct prepended {
  std::string text;  ///< prepended to each text that is not empty
};

struct stripped {
  bool left, right;  ///< which ends lose their white space
};

/// BERT's clean_text: removes characters of the category "other" and turns white space into blanks.
struct cleaned {};

/// BERT's handle_chinese_chars: adds blanks around each Chinese character.
struct spaced_ideographs {};

struct without_marks {
  bool nonspacing_only;  ///< true: removes category Mn; false: removes M
};

/// SentencePiece's "nmt" rules: remove control characters and turn similar characters into blanks.
struct nmt_cleaned {};

struct mapped_characters {
  std::shared_ptr<const character_map> by;
  digest content;  ///< digest of the table
};

/// Replaces each byte by its character of byte_alphabet.hpp.
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

  /// Applies all steps to valid UTF-8. Throws input_error if the text grows beyond 100 times its
  /// size. Thread-safe.
  std::string apply(std::string_view text) const;

 private:
  std::vector<step> steps_;
};

}  // namespace troupe::runtime

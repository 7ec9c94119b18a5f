// Added tokens: found in a text before it is split into words. They are the "added_tokens" of a
// tokenizer.json, as implemented by Hugging Face's tokenizers (AddedVocabulary, version 0.23).

#pragma once

#include "runtime/tokenizer/expression.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

struct added_token {
  std::int32_t id = 0;
  std::string content;
  bool single_word = false;  ///< matches only if no letter, digit or underscore touches it
  bool lstrip = false;       ///< also takes the white space on its left
  bool rstrip = false;       ///< also takes the white space on its right
  bool normalized = false;   ///< searched after normalization, else before
  bool special = false;      ///< plain text unless special tokens are requested
};

/// The added tokens that are searched in one kind of text: raw or normalized.
class added_tokens {
 public:
  /// Ignores empty tokens. The last of several equal tokens counts.
  explicit added_tokens(std::vector<added_token> tokens);

  bool empty() const { return tokens_.empty(); }

  /// Searches from left to right for the longest token at each position. Calls token() for each
  /// match and between() for each stretch between matches, in order. `with_special` also searches
  /// special tokens. `text` must be valid UTF-8. Thread-safe.
  void split(std::string_view text,
             bool with_special,
             const std::function<void(std::string_view)>& between,
             const std::function<void(std::int32_t)>& token) const;

 private:
  const added_token* longest_at(std::string_view text) const;

  std::vector<added_token> tokens_;  ///< sorted by content
  bool begins_[256] = {};            ///< by byte: some token starts with it
};

}  // namespace troupe::runtime

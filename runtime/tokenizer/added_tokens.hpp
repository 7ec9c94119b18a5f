// Tokens that are found in a text before it is cut into words: what a tokenizer.json calls
// added_tokens (Hugging Face's tokenizers, AddedVocabulary, version 0.23).

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
  bool single_word = false;  ///< not beside a letter, a digit or an underscore
  bool lstrip = false;       ///< takes the white space before it
  bool rstrip = false;       ///< and after it
  bool normalized = false;   ///< found in the normalized text
  bool special = false;      ///< ordinary characters to who does not ask for special tokens
};

/// Some of them, all to be found in one kind of text.
class added_tokens {
 public:
  /// Empty ones are left out; of equal ones the last counts.
  explicit added_tokens(std::vector<added_token> tokens);

  bool empty() const { return tokens_.empty(); }

  /// Calls between() for each stretch without a token and token() for each that is found, in order:
  /// at each place the longest, from left to right. `with_special`: special ones are looked for.
  /// `text` is valid UTF-8. Any thread.
  void split(std::string_view text,
             bool with_special,
             const std::function<void(std::string_view)>& between,
             const std::function<void(std::int32_t)>& token) const;

 private:
  const added_token* longest_at(std::string_view text) const;

  std::vector<added_token> tokens_;  ///< by content
  bool begins_[256] = {};            ///< by byte: a token begins so
};

}  // namespace troupe::runtime

// The text of one generated choice, from its tokens: complete characters, without special tokens,
// and up to the first stop text.

#pragma once

#include "runtime/inference/text_stream.hpp"
#include "runtime/serving/text_engine.hpp"

#include <string>
#include <vector>

namespace troupe::runtime::serving {

/// The tokenizer must outlive it.
class choice_text {
 public:
  /// The tokens in `ends` are not shown.
  choice_text(const tokenizer& with,
              const std::vector<std::string>& stop,
              std::vector<std::int32_t> ends);

  /// Text to send after one more token. Holds back the beginning of a character or stop text.
  std::string push(const token_choice& x);
  /// The rest, after the last token.
  std::string finish();

  bool stopped() const { return words_.found(); }  ///< by a stop text; cancel the request then
  std::int64_t tokens() const { return tokens_; }  ///< generated, also those that are not shown
  double log_probability() const { return sum_; }  ///< of all tokens
  /// The shown tokens since the last call.
  std::vector<token_choice> take_choices();

 private:
  const tokenizer& with_;
  text_stream characters_;
  stop_words words_;
  std::vector<std::int32_t> ends_;
  std::vector<token_choice> choices_;
  std::int64_t tokens_ = 0;
  double sum_ = 0;
};

/// A token for log-probabilities: its text; "bytes:\xe2\x82" for a part of a character.
std::string token_text(const tokenizer& with, std::int32_t token);

}  // namespace troupe::runtime::serving

// Turns a stream of tokens into text that a terminal can show at any moment.

#pragma once

#include "runtime/tokenizer/tokenizer.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Holds back the bytes of a character until it is complete. A maximal invalid subpart becomes
/// U+FFFD, as in Python. The tokenizer must outlive this object. The text of a token may depend
/// only on the token and the one before it, as in all tokenizers here.
class text_stream {
 public:
  explicit text_stream(const tokenizer& with) : with_(with) {}

  /// Text to show after one more token; may be empty.
  std::string push(std::int32_t token);

  /// The rest of the text, after the last token.
  std::string finish();

 private:
  std::string take(bool all);

  const tokenizer& with_;
  std::optional<std::int32_t> last_;  ///< token
  std::string pending_;
};

/// Ends a text before the first of several stop words, even when a word is split between pieces.
class stop_words {
 public:
  /// Empty words are ignored.
  explicit stop_words(std::vector<std::string> words);

  /// Text to show after one more piece. Holds back a possible beginning of a stop word.
  std::string push(std::string_view piece);
  /// The rest of the text, after the last piece.
  std::string finish();
  bool found() const { return found_; }  ///< a stop word was found; further pieces are ignored

 private:
  std::vector<std::string> words_;
  std::string pending_;
  bool found_ = false;
};

}  // namespace troupe::runtime

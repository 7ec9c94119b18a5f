// Tokens that come one by one, as text that a terminal can show at any moment.

#pragma once

#include "runtime/tokenizer/tokenizer.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Holds back the bytes of a character until it is complete. A byte that cannot be part of one
/// becomes U+FFFD. The tokenizer outlives it; what an id of it reads as depends on itself and the
/// one before it, which holds of all of ours.
class text_stream {
 public:
  explicit text_stream(const tokenizer& with) : with_(with) {}

  /// What can be shown after one more token; may be empty.
  std::string push(std::int32_t token);

  /// What is left when no more tokens come.
  std::string finish();

 private:
  std::string take(bool all);

  const tokenizer& with_;
  std::optional<std::int32_t> last_;  ///< token
  std::string pending_;
};

/// Ends a text before the first of some words, however it is cut into pieces.
class stop_words {
 public:
  /// Empty words are left out.
  explicit stop_words(std::vector<std::string> words);

  /// What can be shown after one more piece: what may be the beginning of a word is held back.
  std::string push(std::string_view piece);
  /// What is left when no more comes.
  std::string finish();
  bool found() const { return found_; }  ///< the text has ended; more pieces are ignored

 private:
  std::vector<std::string> words_;
  std::string pending_;
  bool found_ = false;
};

}  // namespace troupe::runtime

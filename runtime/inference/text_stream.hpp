// Tokens that come one by one, as text that a terminal can show at any moment.

#pragma once

#include "runtime/tokenizer/tokenizer.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

/// Holds back the bytes of a character until it is complete. A byte that cannot be part of one
/// becomes U+FFFD. The tokenizer outlives it.
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
  std::vector<std::int32_t> tokens_;
  std::size_t decoded_ = 0;  ///< bytes of the decoded text that were taken up
  std::string pending_;
};

}  // namespace troupe::runtime

// Splits documents into sentences, for BERT's data sets.

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Splits by Unicode's rules (UAX #29) from ICU, for English also with CLDR's abbreviations ("Mr.",
/// "etc."). One difference: the end of a line ends a sentence only after a mark such as . ! ?, or
/// before a blank line. Single-threaded.
class sentence_splitter {
 public:
  /// `language`: Megatron's name, such as "english", or a code, such as "en". Throws input_error
  /// for an unknown language.
  explicit sentence_splitter(const std::string& language = "english");
  ~sentence_splitter();

  /// Appends the sentences of UTF-8 text to `out`, in order, as parts of `text`. Drops the white
  /// space around them; with `keep_newlines`, keeps the white space after each. Skips blank
  /// sentences. Throws input_error for a text above 2 GB, the limit of ICU.
  void split(std::string_view text, bool keep_newlines, std::vector<std::string_view>& out);

  /// The version of ICU and its data, which determines the result.
  static std::string version();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace troupe::runtime

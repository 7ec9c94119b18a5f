// Documents to sentences, as BERT's data sets want them.

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Sentences by Unicode's rules (UAX #29) for the language, and in English with the abbreviations
/// that CLDR lists ("Mr.", "etc."), both from ICU; but the end of a line ends a sentence only where
/// the sentence's last mark does (. ! ? and others' like), or where the next line is blank. One
/// thread uses it.
class sentence_splitter {
 public:
  /// `language`: as Megatron names it, "english", or by its code, "en". Throws input_error for one
  /// that is not known.
  explicit sentence_splitter(const std::string& language = "english");
  ~sentence_splitter();

  /// Appends the sentences of a text of UTF-8 to `out`, parts of it in its order. White space
  /// around them is left out; with `keep_newlines` that which follows a sentence is its. Blank ones
  /// are none. Throws input_error for a text above 2 GB, which ICU does not take.
  void split(std::string_view text, bool keep_newlines, std::vector<std::string_view>& out);

  /// What decides besides the text: the version of ICU, which has its data.
  static std::string version();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace troupe::runtime

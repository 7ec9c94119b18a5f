// The cut of a text into words, as tokenizer.json describes it: each rule splits what the one
// before left. Inside a word byte pairs are merged, across words never.
//
// What each rule means is defined by Hugging Face's tokenizers (pre_tokenizers, version 0.23).

#pragma once

#include "runtime/tokenizer/expression.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe::runtime {

/// What becomes of what an expression matches, beside what lies between two matches.
enum class split_behavior {
  removed,
  isolated,              ///< a word of its own
  merged_with_previous,  ///< the end of what stands before it
  merged_with_next,      ///< the beginning of what follows
  contiguous,            ///< neighbouring matches are one word
};

struct split_rule {
  expression what;
  split_behavior behavior = split_behavior::isolated;
  bool inverted = false;  ///< what lies between is meant
};

/// A word that does not begin with a space gets one.
struct prefix_space {};

/// Blanks become SentencePiece's mark of a space, which may be put before a word as well.
struct space_marks {
  enum class before { never, always, first };  ///< first: what begins the whole text

  std::string mark;  ///< one character
  before put = before::always;
};

/// Each byte becomes its character of byte_alphabet.hpp.
struct bytes_to_characters {};

class word_splitter {
 public:
  using rule = std::variant<split_rule, prefix_space, space_marks, bytes_to_characters>;
  using visitor = std::function<void(std::string_view)>;

  explicit word_splitter(std::vector<rule> rules) : rules_(std::move(rules)) {}

  /// Splits texts. One thread; the splitter outlives it.
  class worker {
   public:
    explicit worker(const word_splitter& by);

    /// Calls word() for each word of `text`, which is valid UTF-8, in order. `first`: the text
    /// begins what was to be encoded, and is no stretch behind an added token. Throws input_error
    /// where rules put more than a hundred times as much as there was.
    void split(std::string_view text, bool first, const visitor& word);

   private:
    void split(std::string_view text, bool first, std::size_t rule, const visitor& word);
    void split(std::string_view text,
               const split_rule& by,
               expression_search& search,
               const visitor& part);

    const std::string& counted(const std::string& put);

    const word_splitter& by_;
    std::size_t put_ = 0, most_put_ = 0;       ///< bytes of texts that rules made of this one
    std::vector<expression_search> searches_;  ///< of each rule; of other rules unused
  };

 private:
  std::vector<rule> rules_;
};

}  // namespace troupe::runtime

// Splits a text into words, as the "pre_tokenizer" of a tokenizer.json describes. Each rule splits
// the results of the previous one. BPE merges within a word, never across words.
//
// The rules follow Hugging Face's tokenizers (pre_tokenizers, version 0.23).

#pragma once

#include "runtime/tokenizer/expression.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe::runtime {

/// Treatment of the delimiters, which are the matches of an expression (or, if inverted, the
/// stretches between them).
enum class split_behavior {
  removed,
  isolated,              ///< each delimiter is a word
  merged_with_previous,  ///< appended to the word before it
  merged_with_next,      ///< prepended to the word after it
  contiguous,            ///< adjacent delimiters form one word
};

struct split_rule {
  expression what;
  split_behavior behavior = split_behavior::isolated;
  bool inverted = false;  ///< the delimiters are the stretches between the matches
};

/// Adds a space in front of a word that does not begin with one.
struct prefix_space {};

/// Replaces blanks by SentencePiece's space mark and optionally adds one in front of a word.
struct space_marks {
  enum class before { never, always, first };  ///< first: only at the start of the whole text

  std::string mark;  ///< one character
  before put = before::always;
};

/// Replaces each byte by its character of byte_alphabet.hpp.
struct bytes_to_characters {};

class word_splitter {
 public:
  using rule = std::variant<split_rule, prefix_space, space_marks, bytes_to_characters>;
  using visitor = std::function<void(std::string_view)>;

  explicit word_splitter(std::vector<rule> rules) : rules_(std::move(rules)) {}

  /// Splits texts; the splitter must outlive it. Not thread-safe.
  class worker {
   public:
    explicit worker(const word_splitter& by);

    /// Calls word() for each word of `text`, in order. `text` must be valid UTF-8. `first`: the
    /// text starts the input, rather than follows an added token. Throws input_error if rules grow
    /// the text beyond 100 times its size.
    void split(std::string_view text, bool first, const visitor& word);

   private:
    void split(std::string_view text, bool first, std::size_t rule, const visitor& word);
    void split(std::string_view text,
               const split_rule& by,
               expression_search& search,
               const visitor& part);

    const std::string& counted(const std::string& put);

    const word_splitter& by_;
    std::size_t put_ = 0, most_put_ = 0;  ///< bytes of the texts that rules made, and their limit
    std::vector<expression_search> searches_;  ///< by rule; used by split_rule only
  };

 private:
  std::vector<rule> rules_;
};

}  // namespace troupe::runtime

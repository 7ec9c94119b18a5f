// Choices of routers by text: generation and scoring record them, and later passes find a text by
// its tokens.
//
//   choice_text_writer to(folder, T);        choice_texts of(folder);
//   to.write_tokens(n, 0, tokens);           of.find(tokens)  ->  number n, and its rows
//   to.write_choices(n, 0, choice, 0, 5);
//
// The folder has a file of tokens beside those of expert_choices.hpp, in which the sample of a row
// is the number of its text, and the position that in the text (docs/formats/expert_choices.md). A
// text of n tokens has choices for the n - 1 that predict another one.
//
// CHOICES-3: a text takes only choices that were recorded for the same tokens.

#pragma once

#include "runtime/model/expert_choices.hpp"

#include <optional>
#include <span>
#include <unordered_map>

namespace troupe::runtime {

/// One thread.
class choice_text_writer {
 public:
  /// Texts of at most `positions` tokens. Throws input_error if the folder has choices, and
  /// io_error.
  choice_text_writer(const std::filesystem::path& folder, std::int64_t positions);

  void write_tokens(std::uint64_t text, std::int64_t first, std::span<const std::int32_t> tokens);
  /// Rows [row, row + count) of `x` are the positions of a text from `first` on.
  void write_choices(std::uint64_t text,
                     std::int64_t first,
                     const recorded_choice& x,
                     std::int64_t row,
                     std::int64_t count);

 private:
  std::int64_t positions_;
  placed_file tokens_;
  choice_writer choices_;
};

/// The texts of a folder. Const methods are thread-safe.
class choice_texts {
 public:
  /// Throws input_error if the folder has no file of tokens, or another file under its name.
  explicit choice_texts(const std::filesystem::path& folder);

  static bool are_in(const std::filesystem::path& folder);

  std::int64_t positions() const { return positions_; }
  std::uint64_t size() const { return size_; }
  std::vector<std::int32_t> tokens(std::uint64_t text) const;

  struct place {
    std::uint64_t text = 0;
    std::int64_t rows = 0;  ///< that have choices
  };
  /// The text with the most rows among those that begin these tokens, or are these tokens and one
  /// more.
  std::optional<place> find(std::span<const std::int32_t> tokens) const;

 private:
  mapped_file file_;
  std::int64_t positions_ = 0;
  std::uint64_t size_ = 0;
  std::unordered_multimap<std::uint64_t, std::uint64_t> by_rows_;  ///< hash of their tokens to text
};

}  // namespace troupe::runtime

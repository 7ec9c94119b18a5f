// Training to fill in the middle (FIM): a text is cut in three, and the middle comes last (Bavarian
// et al. 2022, arXiv:2207.14255). Megatron-LM's GPTFIMDataset, but that what is drawn for a sample
// depends on the seed and its number alone, not on the samples that were read before.

#pragma once

#include "runtime/data/numpy_random.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe::runtime {

/// The fields are named after Megatron-LM's flags.
struct fim_settings {
  bool enabled = false;
  double rate = 0.5;           ///< of the documents of a sample, how many are cut
  double spm_rate = 0.5;       ///< of these, how many are suffix, prefix, middle
  std::string split_sample;    ///< a token that ends a fragment of a document; empty: none does
  double fragment_rate = 0.5;  ///< of the fragments of a document that `rate` chose
  std::string no_prefix;       ///< what begins so is left as it is; empty: nothing is
  std::string prefix_token = "<fim-prefix>", middle_token = "<fim-middle>",
              suffix_token = "<fim-suffix>", pad_token = "<fim-pad>";
  std::string eod_token = "<|endoftext|>";  ///< ends a document

  friend bool operator==(const fim_settings&, const fim_settings&) = default;
};

/// Every rule that the settings break by themselves, one sentence each.
void validate_fim(const fim_settings& x, std::vector<std::string>& wrong);

/// Immutable; any thread may call at once.
class fill_in_middle {
 public:
  /// Throws input_error where a token of the settings is none of the tokenizer's: all of these; and
  /// where two of them are the same.
  fill_in_middle(const fim_settings& settings,
                 std::shared_ptr<const tokenizer> by,
                 std::uint32_t seed);

  std::int32_t vocabulary_size() const { return by_->vocabulary_size(); }
  std::int32_t end_of_document() const { return end_; }  ///< what it cuts documents at

  /// `text` becomes what sample `sample` is trained on. Documents end at the token that ends them;
  /// one that is empty goes, with its end, unless it is the last. Tokens that end fragments all
  /// stay. Each that is drawn becomes text,
  /// without its special tokens; two borders are drawn between its characters; the three parts are
  /// tokenized, each by itself. A byte that is no part of valid UTF-8 is a character, or a part of
  /// one with its neighbours (Unicode Standard, section 3.9). What is then too long loses its end;
  /// what is too short is filled with the padding token. Returns how many tokens are no padding.
  std::size_t apply(std::uint64_t sample, std::span<std::int32_t> text) const;

 private:
  using tokens = std::vector<std::int32_t>;

  void permute(std::span<const std::int32_t> piece,
               double rate,
               numpy_random_state& draws,
               tokens& out) const;
  void permute_document(std::span<const std::int32_t> document,
                        numpy_random_state& draws,
                        tokens& out) const;
  std::string text_of(std::span<const std::int32_t> piece) const;

  fim_settings settings_;
  std::shared_ptr<const tokenizer> by_;
  std::uint32_t seed_;
  static constexpr std::int32_t no_token = -1;
  std::int32_t prefix_, middle_, suffix_, pad_, end_, split_ = no_token;
};

}  // namespace troupe::runtime

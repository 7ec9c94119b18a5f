// Fill-in-the-middle (FIM) samples: cuts a text in three and moves the middle to the end (Bavarian
// et al. 2022, arXiv:2207.14255). Follows Megatron-LM's GPTFIMDataset, with one difference: the
// random draws of a sample depend only on the seed and its number, not on earlier reads.

#pragma once

#include "runtime/core/setting.hpp"
#include "runtime/data/numpy_random.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe::runtime {

/// The fields have the names of Megatron-LM's flags.
struct fim_settings {
  bool enabled = false;
  double rate = 0.5;           ///< probability that a document is cut
  double spm_rate = 0.5;       ///< probability of the order suffix, prefix, middle
  std::string split_sample;    ///< token that ends a fragment of a document; empty: none
  double fragment_rate = 0.5;  ///< probability that a fragment of a chosen document is cut
  std::string no_prefix;       ///< texts that begin with this are not cut; empty: none
  std::string prefix_token = "<fim-prefix>", middle_token = "<fim-middle>",
              suffix_token = "<fim-suffix>", pad_token = "<fim-pad>";
  std::string eod_token = "<|endoftext|>";  ///< ends a document

  friend bool operator==(const fim_settings&, const fim_settings&) = default;

  static constexpr auto changed_at_resume = at_resume::told;
  static constexpr auto fields() {
    using x = fim_settings;
    return std::tuple(
        row("enabled", &x::enabled)
            .flag({.name = "--fim-data",
                   .help = "Fill in the middle (FIM): cuts documents of a sample into three parts, "
                           "between characters, and moves the middle to the end.",
                   .megatron = "random choices depend only on the seed and the sample's number, "
                               "not on earlier samples"}),
        row("rate", &x::rate)
            .flag({.name = "--fim-rate",
                   .type = "P",
                   .help = "Fraction of the documents that are cut.",
                   .range = real_range{0, 1}}),
        row("spm_rate", &x::spm_rate)
            .flag({.name = "--fim-spm-rate",
                   .type = "P",
                   .help = "Fraction of the cut documents that become suffix, prefix, middle; the "
                           "others become prefix, suffix, middle.",
                   .range = real_range{0, 1}}),
        row("split_sample", &x::split_sample)
            .flag({.name = "--fim-split-sample",
                   .type = "TOKEN",
                   .help = "Token that ends a fragment of a document; each fragment is then cut "
                           "separately."}),
        row("fragment_rate", &x::fragment_rate)
            .flag({.name = "--fim-fragment-rate",
                   .type = "P",
                   .help = "With --fim-split-sample: fraction of the fragments that are cut, in "
                           "documents chosen by --fim-rate.",
                   .megatron = "default 0.5",
                   .range = real_range{0, 1}}),
        row("no_prefix", &x::no_prefix)
            .flag({.name = "--fim-no-prefix",
                   .type = "TEXT",
                   .help = "Documents or fragments that begin with this text are not cut."}),
        row("prefix_token", &x::prefix_token)
            .flag({.name = "--fim-prefix-token",
                   .type = "TOKEN",
                   .help = "Token before the prefix."}),
        row("middle_token", &x::middle_token)
            .flag({.name = "--fim-middle-token",
                   .type = "TOKEN",
                   .help = "Token before the middle."}),
        row("suffix_token", &x::suffix_token)
            .flag({.name = "--fim-suffix-token",
                   .type = "TOKEN",
                   .help = "Token before the suffix."}),
        row("pad_token", &x::pad_token)
            .flag({.name = "--fim-pad-token",
                   .type = "TOKEN",
                   .help = "Token that fills up a sample; does not count in the loss.",
                   .megatron = "padding never counts in the loss"}),
        row("eod_token", &x::eod_token)
            .flag({.name = "--fim-eod-token",
                   .type = "TOKEN",
                   .help = "Token that ends a document in the data."}));
  }
};

/// Appends one sentence to `wrong` for each invalid setting.
void validate_fim(const fim_settings& x, std::vector<std::string>& wrong);

/// Immutable; any number of threads.
class fill_in_middle {
 public:
  /// Throws input_error, with all names, when the tokenizer lacks tokens of the settings. Also
  /// throws input_error when two of them are equal.
  fill_in_middle(const fim_settings& settings,
                 std::shared_ptr<const tokenizer> by,
                 std::uint32_t seed);

  std::int32_t vocabulary_size() const { return by_->vocabulary_size(); }
  std::int32_t end_of_document() const { return end_; }  ///< the separator of documents

  /// Transforms `text` in place into the training text of sample `sample`. Returns the number of
  /// tokens before the padding.
  ///
  /// Splits `text` at end-of-document tokens. An empty document is dropped together with its end,
  /// unless it is the last. Tokens that end fragments are all kept. A chosen document or fragment
  /// is decoded without its special tokens and cut at two random borders between characters; the
  /// three parts are tokenized separately. Invalid UTF-8 counts as characters as in section 3.9 of
  /// the Unicode Standard. The result is truncated, or padded with the padding token, to the size
  /// of `text`.
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

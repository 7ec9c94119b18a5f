// Masked words of BERT and T5: which tokens of a sample a model predicts. Follows megatron-core's
// MaskedWordPieceDataset, with one difference: permutations draw from the generator of the sample
// instead of numpy's global one, so a sample does not depend on earlier reads.
//
// A candidate is a token, or a word of several tokens. A candidate's n-gram is the candidate and
// the n - 1 candidates after it.

#pragma once

#include "runtime/core/setting.hpp"
#include "runtime/data/numpy_random.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe::runtime {

/// The fields have the names of megatron-core's, shortened.
struct masking_settings {
  double probability = 0.15;
  double short_sequences = 0.1;  ///< probability that a sample is shorter than the model's maximum
  std::int64_t max_ngram = 3;
  bool whole_words = true;
  bool permutation = false;
  bool longer_ngrams = false;
  bool geometric = false;

  friend bool operator==(const masking_settings&, const masking_settings&) = default;

  static constexpr auto changed_at_resume = at_resume::told;
  static constexpr auto fields() {
    using x = masking_settings;
    return std::tuple(
        row("probability", &x::probability)
            .flag({.name = "--mask-prob",
                   .type = "P",
                   .help = "Fraction of a sample's tokens that are masked.",
                   .range = real_range{.least = 0, .most = 1, .above = true, .below = true}}),
        row("short_sequences", &x::short_sequences)
            .flag({.name = "--short-seq-prob",
                   .type = "P",
                   .help = "Fraction of the samples that are cut to a random shorter length.",
                   .range = real_range{0, 1}}),
        row("max_ngram", &x::max_ngram)
            .own_flag({.name = "--mask-max-ngram",
                       .unit = "words",
                       .default_value = "3; 10 for a T5",
                       .help = "Maximum number of words that are masked together.",
                       .range = whole_range{1, 128},
                       .only_given = true}),
        row("whole_words", &x::whole_words)
            .own_flag({.name = "--no-whole-word-masking",
                       .help = "Masks parts of words (\"##...\") separately.",
                       .value = "false"}),
        row("permutation", &x::permutation)
            .own_flag({.name = "--mask-permutation",
                       .help = "Also exchanges as many other tokens among each other, and predicts "
                               "them, too."}),
        row("longer_ngrams", &x::longer_ngrams)
            .own_flag({.name = "--mask-longer-ngrams",
                       .help = "Masks long runs of words more often than short ones."}),
        row("geometric", &x::geometric)
            .own_flag({.name = "--mask-geometric-ngrams",
                       .help
                       = "Draws the number of words that are masked together from a geometric "
                         "distribution, as SpanBERT; a T5 always does."}));
  }
};

/// Appends one sentence to `wrong` for each violated rule.
void validate_masking(const masking_settings& x, std::vector<std::string>& wrong);

/// Tokens with a meaning of their own; -1: the tokenizer has none.
struct masking_vocabulary {
  std::int32_t classify = -1, separator = -1;  ///< never masked
  std::vector<bool> continues = {};            ///< by id: the token continues a word ("##...")
};

struct masked_span {
  std::vector<std::int32_t> positions;  ///< ascending
  std::vector<std::int32_t> labels;     ///< the tokens that were there
};

struct masked_text {
  std::vector<std::int32_t> tokens;
  std::vector<masked_span> spans;       ///< in order; they do not overlap
  std::vector<std::int32_t> positions;  ///< of masked and permuted tokens, ascending
  std::vector<std::int32_t> labels;     ///< the token to predict at each of them
};

/// The token that replaces a masked one; nothing: it stays. Draws from the generator.
using mask_choice = std::function<std::optional<std::int32_t>(numpy_random_state& draws)>;

/// The most tokens of a text of up to `longest` tokens that are masked.
std::int64_t most_masked(std::int64_t longest, double probability);

/// Throws input_error if no token of such a text is ever masked.
void require_masks(std::int64_t longest, double probability);

/// Masks a sample. `longest`: its target length, which limits the number of masks. `how.max_ngram`
/// is from 1 to 128, and ids are below continues.size() (MASKING-1).
masked_text mask_tokens(std::span<const std::int32_t> tokens,
                        std::int64_t longest,
                        const masking_settings& how,
                        const masking_vocabulary& vocabulary,
                        const mask_choice& mask,
                        numpy_random_state& draws);

}  // namespace troupe::runtime

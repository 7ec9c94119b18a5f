// A blend of data sets, in the words of Megatron-LM's scripts, and how many samples each of them
// gives: megatron-core 0.16, blended_megatron_dataset_builder.py.

#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Prefixes of .bin and .idx, each with a weight or none with one.
struct data_blend {
  std::vector<std::filesystem::path> prefixes;  ///< empty: no data
  std::vector<double> weights;  ///< one a prefix, finite and above 0; empty: as large as they are

  bool empty() const { return prefixes.empty(); }
  friend bool operator==(const data_blend&, const data_blend&) = default;
};

inline data_blend blend_of(std::filesystem::path prefix) {
  return {.prefixes = {std::move(prefix)}, .weights = {}};
}

/// "PREFIX ..." or "WEIGHT PREFIX ...", Megatron's rule: an even number of words, of which every
/// other is a number from the first on, are weights and prefixes. Throws input_error, which names
/// the word: a weight that is not above 0 or not finite, some weights only, a number where a
/// prefix belongs, an empty prefix; and for weights without a finite sum, and 32767 data sets or
/// more.
data_blend blend_from_words(std::span<const std::string> words);

/// Words of a file, between spaces and line ends.
data_blend blend_from_text(std::string_view text);

/// {"train": [WORD, ...], "valid": "WORD WORD", "test": null}: of each part a list, a text or
/// nothing. Throws input_error.
std::array<data_blend, 3> blends_from_json(const std::string& text);

/// Each weight over their sum, which is added up in numpy's order (pairwise, in eights), since the
/// last bit may decide which data set comes next.
std::vector<double> normalized(std::vector<double> weights);

/// ceil(samples * weight) of each data set: together the blend's size, a little above `samples`.
std::vector<std::uint64_t> blend_sizes(std::span<const double> normalized_weights,
                                       std::uint64_t samples);

/// What is asked of each: 0.5 % more, rounded up (Megatron's mid_level_dataset_surplus).
std::uint64_t with_surplus(std::uint64_t samples);

/// Sample i of a blend is sample `sample[i]` of data set `dataset[i]`.
struct blend_order {
  std::vector<std::int16_t> dataset;
  std::vector<std::int64_t> sample;
};

/// The next sample is of the data set that lags most behind its weight, of equal ones the first.
/// 10 bytes a sample; time is samples x data sets. Weights have the sum 1.
blend_order build_blend(std::span<const double> weights, std::uint64_t samples);

/// All samples of all data sets, in proportion to their sizes.
blend_order build_exhaustive_blend(std::span<const std::uint64_t> sizes);

}  // namespace troupe::runtime

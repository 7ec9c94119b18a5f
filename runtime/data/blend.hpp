// A weighted blend of data sets: parses Megatron-LM's notation and computes how many samples each
// data set contributes. Follows megatron-core 0.16, blended_megatron_dataset_builder.py.

#pragma once

#include "runtime/core/setting.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Path prefixes of .bin and .idx files, either all with a weight or all without.
struct data_blend {
  std::vector<std::filesystem::path> prefixes;  ///< empty: no data
  std::vector<double> weights;  ///< one per prefix, finite, above 0; empty: in proportion to size

  bool empty() const { return prefixes.empty(); }
  bool is_single() const { return prefixes.size() == 1 && weights.empty(); }
  friend bool operator==(const data_blend&, const data_blend&) = default;

  static constexpr auto fields() {
    using x = data_blend;
    return std::tuple(row("prefixes", &x::prefixes), row("weights", &x::weights));
  }
};

inline data_blend blend_of(std::filesystem::path prefix) {
  return {.prefixes = {std::move(prefix)}, .weights = {}};
}

/// Parses "PREFIX ..." or "WEIGHT PREFIX ...". Megatron's rule: an even number of words that begins
/// with a number and has a number at every second place is weights and prefixes.
///
/// Throws input_error, naming the word, for: a weight that is not finite and above 0, a missing
/// weight, a number in the place of a prefix, an empty prefix. Also throws input_error when the sum
/// of the weights is not finite and when there are more than 32766 data sets.
data_blend blend_from_words(std::span<const std::string> words);

/// Parses the words of `text`, separated by white space, as blend_from_words does.
data_blend blend_from_text(std::string_view text);

/// Parses {"train": [WORD, ...], "valid": "WORD WORD", "test": null}. Each part is a list, a
/// string, null, or absent. Throws input_error.
std::array<data_blend, 3> blends_from_json(const std::string& text);

/// Divides each weight by the sum. The sum uses numpy's order of additions (pairwise, eight at a
/// time), because the last bit can decide which data set comes next.
std::vector<double> normalized(std::vector<double> weights);

/// ceil(samples * weight) per data set. The total is the size of the blend, slightly above
/// `samples`.
std::vector<std::uint64_t> blend_sizes(std::span<const double> normalized_weights,
                                       std::uint64_t samples);

/// Samples to request from a data set: 0.5 % more, rounded up (Megatron's
/// mid_level_dataset_surplus).
std::uint64_t with_surplus(std::uint64_t samples);

/// Sample i of a blend is sample `sample[i]` of data set `dataset[i]`.
struct blend_order {
  std::vector<std::int16_t> dataset;
  std::vector<std::int64_t> sample;
};

/// Takes each sample from the data set that lags most behind its weight; ties go to the first.
/// `weights` must sum to 1. Memory: 10 bytes per sample. Time: samples x data sets.
blend_order build_blend(std::span<const double> weights, std::uint64_t samples);

/// Uses every sample of every data set once, interleaved in proportion to their sizes.
blend_order build_exhaustive_blend(std::span<const std::uint64_t> sizes);

}  // namespace troupe::runtime

#include "runtime/data/blend.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::size_t most_data_sets = 32766;  // data set numbers are int16

std::optional<double> number_in(std::string_view word) {
  double x = 0;
  if (word.starts_with('+'))
    word.remove_prefix(1);
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), x);
  if (failure == std::errc::invalid_argument || end != word.data() + word.size())
    return std::nullopt;
  return failure == std::errc() ? x : std::numeric_limits<double>::infinity();
}

void require_weight(double weight, const std::string& word, const std::string& prefix) {
  if (!(weight > 0) || !std::isfinite(weight))
    throw input_error(
        "cannot blend by the weight {} of '{}': a weight is a finite number above 0; give one, or "
        "leave the data set out",
        word,
        prefix);
}

/// Reads an even number of words as alternating weights and prefixes. Returns nullopt when no word
/// in a weight's place is a number.
std::optional<data_blend> weighted(std::span<const std::string> words) {
  data_blend out;
  std::size_t numbers = 0;
  for (std::size_t i = 0; i < words.size(); i += 2)
    numbers += number_in(words[i]).has_value() ? 1 : 0;
  if (numbers == 0)
    return std::nullopt;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const auto weight = number_in(words[i]);
    if (!weight)
      throw input_error(
          "cannot blend: '{}' stands where the weight of '{}' belongs, and other data sets have "
          "one; give each a weight, or none",
          words[i],
          words[i + 1]);
    require_weight(*weight, words[i], words[i + 1]);
    out.weights.push_back(*weight);
    out.prefixes.emplace_back(words[i + 1]);
  }
  return out;
}

/// True for a mistyped weight such as "0,5" or "50%".
bool is_meant_as_weight(const std::string& word) {
  return word.find_first_of("0123456789") == 0
         && word.find_first_not_of("0123456789.,%") == std::string::npos;
}

/// Without weights, every word is a prefix. Refuses a number that names no existing file.
void require_prefixes(std::span<const std::string> words) {
  for (const auto& word : words) {
    std::error_code failure;
    const bool is_number = number_in(word).has_value();
    if ((!is_number && !is_meant_as_weight(word))
        || std::filesystem::exists(word + ".idx", failure))
      continue;
    if (!is_number)
      throw input_error(
          "cannot blend: '{}' is not a weight, and no data set has this prefix; a weight is a "
          "number "
          "such as 0.5 or 50, and only the ratios of weights count",
          word);
    throw input_error(
        "cannot blend by {}: '{}' is a number, but weights and prefixes must alternate (WEIGHT "
        "PREFIX "
        "WEIGHT PREFIX), so that their number is even; {}",
        counted(words.size(), "word"),
        word,
        words.size() % 2 == 0 ? "put each weight before its prefix" : "add the missing word");
  }
}

/// Sums in numpy's order: eight partial sums in blocks of at most 128 numbers.
double pairwise_sum(std::span<const double> x) {
  const auto n = x.size();
  if (n < 8) {
    double sum = 0;
    for (const double one : x)
      sum += one;
    return sum;
  }
  if (n <= 128) {
    std::array<double, 8> r = {};
    std::copy_n(x.begin(), 8, r.begin());
    std::size_t i = 8;
    for (; i + 8 <= n; i += 8)
      for (std::size_t k = 0; k < 8; ++k)
        r[k] += x[i + k];
    double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < n; ++i)
      sum += x[i];
    return sum;
  }
  const auto half = n / 2 - (n / 2) % 8;
  return pairwise_sum(x.first(half)) + pairwise_sum(x.subspan(half));
}

std::uint64_t ceiling(double x) {
  if (!(x < 0x1p62))
    throw input_error("cannot blend {} samples: the maximum is 2^62", x);
  return static_cast<std::uint64_t>(std::ceil(x));
}

data_blend part_in(const nlohmann::json& from, const char* part) {
  if (!from.contains(part) || from[part].is_null())
    return {};
  const auto& words = from[part];
  if (words.is_string())
    return blend_from_text(words.get<std::string>());
  std::vector<std::string> all;
  const bool listed = words.is_array();
  for (const auto& word : listed ? words : nlohmann::json::array({false}))
    if (word.is_string())
      all.push_back(word.get<std::string>());
    else if (listed && word.is_number())
      all.push_back(json_text(word));
    else
      throw input_error(
          "'{}' is not a list of data sets: give [WEIGHT, PREFIX, ...], [PREFIX, ...] or one "
          "string",
          part);
  return blend_from_words(all);
}

}  // namespace

data_blend blend_from_words(std::span<const std::string> words) {
  auto out = words.size() % 2 == 0 ? weighted(words) : std::nullopt;
  if (!out) {
    require_prefixes(words);
    out = data_blend{.prefixes = {words.begin(), words.end()}, .weights = {}};
  }
  if (!out->weights.empty())
    normalized(out->weights);  // throws when their sum is too large
  for (const auto& prefix : out->prefixes)
    if (prefix.empty())
      throw input_error("cannot blend: the prefix of a data set is empty; name its files");
  if (out->prefixes.size() > most_data_sets)
    throw input_error("cannot blend {} data sets: the maximum is {}; merge some",
                      out->prefixes.size(),
                      most_data_sets);
  return *out;
}

data_blend blend_from_text(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; in >> word;)
    words.push_back(word);
  return blend_from_words(words);
}

std::array<data_blend, 3> blends_from_json(const std::string& text) try {
  const auto from = json_value(text);
  if (!from.is_object())
    throw input_error(
        R"(it is not an object: give {{"train": [WORD, ...], "valid": [WORD, ...], "test": [WORD, ...]}})");
  constexpr std::array parts = {"train", "valid", "test"};
  for (const auto& [key, value] : from.items())
    if (std::find(parts.begin(), parts.end(), key) == parts.end())
      throw input_error("'{}' is not a part of the data: give train, valid and test", key);
  std::array<data_blend, 3> out;
  for (std::size_t i = 0; i < parts.size(); ++i)
    out[i] = part_in(from, parts[i]);
  return out;
} catch (const nlohmann::json::exception& failure) {
  throw input_error("it is not JSON: {}", json_complaint(failure));
}

std::vector<double> normalized(std::vector<double> weights) {
  const double sum = pairwise_sum(weights);
  if (!(sum > 0) || !std::isfinite(sum))
    throw input_error("cannot blend: the sum of the weights is {}; give smaller ones", sum);
  for (auto& weight : weights)
    weight /= sum;
  return weights;
}

std::vector<std::uint64_t> blend_sizes(std::span<const double> normalized_weights,
                                       std::uint64_t samples) {
  std::vector<std::uint64_t> out;
  for (const double weight : normalized_weights)
    out.push_back(ceiling(static_cast<double>(samples) * weight));
  return out;
}

std::uint64_t with_surplus(std::uint64_t samples) {
  return ceiling(static_cast<double>(samples) * (1 + 0.005));
}

blend_order build_blend(std::span<const double> weights, std::uint64_t samples) {
  blend_order out{std::vector<std::int16_t>(samples), std::vector<std::int64_t>(samples)};
  std::vector<std::int64_t> taken(weights.size());
  for (std::uint64_t i = 0; i < samples; ++i) {
    const double at = std::max(static_cast<double>(i), 1.0);
    std::size_t next = 0;
    double most = weights[0] * at - static_cast<double>(taken[0]);
    for (std::size_t d = 1; d < weights.size(); ++d)
      if (const double behind = weights[d] * at - static_cast<double>(taken[d]); behind > most) {
        most = behind;
        next = d;
      }
    out.dataset[i] = static_cast<std::int16_t>(next);
    out.sample[i] = taken[next]++;
  }
  return out;
}

blend_order build_exhaustive_blend(std::span<const std::uint64_t> sizes) {
  std::uint64_t total = 0;
  for (const auto size : sizes)
    total += size;
  std::vector<double> weights;
  std::vector<std::size_t> left;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    weights.push_back(static_cast<double>(sizes[d]) / static_cast<double>(total));
    if (sizes[d] > 0)
      left.push_back(d);
  }
  blend_order out{std::vector<std::int16_t>(total), std::vector<std::int64_t>(total)};
  std::vector<std::int64_t> taken(sizes.size());
  for (std::uint64_t i = 0; i < total; ++i) {
    const double at = std::max(static_cast<double>(i), 1.0);
    double most = std::numeric_limits<double>::lowest();
    std::size_t next = 0;
    for (std::size_t k = 0; k < left.size(); ++k)
      if (const double behind = weights[left[k]] * at - static_cast<double>(taken[left[k]]);
          behind > most) {
        most = behind;
        next = k;
      }
    const auto d = left[next];
    out.dataset[i] = static_cast<std::int16_t>(d);
    out.sample[i] = taken[d]++;
    if (taken[d] == static_cast<std::int64_t>(sizes[d]))
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(next));
  }
  return out;
}

}  // namespace troupe::runtime

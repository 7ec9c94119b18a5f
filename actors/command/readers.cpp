#include "actors/command/readers.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace troupe::command {

std::int64_t parse_whole(const std::string& flag,
                         const std::string& word,
                         std::int64_t least,
                         std::int64_t most) {
  std::int64_t out = 0;
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), out);
  if (failure != std::errc() || end != word.data() + word.size() || out < least || out > most)
    throw usage_error("{} '{}': give a whole number from {} to {}", flag, word, least, most);
  return out;
}

double parse_real(const std::string& flag, const std::string& word, double least, double most) {
  double out = 0;
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), out);
  const bool number = failure == std::errc() && end == word.data() + word.size();
  if (number && std::isfinite(out) && out >= least && out <= most)
    return out;
  constexpr double largest = std::numeric_limits<double>::max();
  std::string allowed = "a number";
  if (least > -largest)
    allowed += most < largest ? fmt::format(" from {} to {}", least, most)
                              : fmt::format(" of {} or more", least);
  throw usage_error("{} '{}': give {}", flag, word, allowed);
}

const std::string& chosen(const std::string& flag,
                          const std::string& word,
                          const std::vector<std::string>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), word) == allowed.end())
    throw usage_error("{} '{}': give one of {}", flag, word, fmt::join(allowed, ", "));
  return word;
}

std::string nearest(std::string_view word, const std::vector<std::string>& names) {
  std::string best;
  auto least = std::max<std::size_t>(word.size() / 3, 2) + 1;
  for (const auto& name : names) {
    // Levenshtein's distance, row by row.
    std::vector<std::size_t> row(name.size() + 1);
    for (std::size_t j = 0; j <= name.size(); ++j)
      row[j] = j;
    for (std::size_t i = 0; i < word.size(); ++i) {
      auto diagonal = std::exchange(row[0], i + 1);
      for (std::size_t j = 0; j < name.size(); ++j) {
        const auto replaced = diagonal + (word[i] == name[j] ? 0 : 1);
        diagonal = row[j + 1];
        row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
      }
    }
    if (row.back() < least) {
      least = row.back();
      best = name;
    }
  }
  return best;
}

}  // namespace troupe::command

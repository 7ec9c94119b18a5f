#include "actors/command/readers.hpp"

#include <algorithm>
#include <utility>

namespace troupe::command {

std::string shown(const std::string& word) {
  constexpr std::size_t longest = 80;
  if (word.size() <= longest)
    return word;
  auto end = longest;
  while (end > 0 && (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80)  // within a character
    --end;
  return word.substr(0, end) + "...";
}

std::int64_t parse_whole(const std::string& flag, const std::string& word, whole_range range) {
  if (const auto out = number_in(range, word))
    return *out;
  throw usage_error("{} '{}': give {}", flag, shown(word), told(range));
}

double parse_real(const std::string& flag, const std::string& word, real_range range) {
  if (const auto out = number_in(range, word))
    return *out;
  throw usage_error("{} '{}': give {}", flag, shown(word), told(range));
}

const std::string& chosen(const std::string& flag,
                          const std::string& word,
                          const std::vector<std::string>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), word) == allowed.end())
    throw usage_error("{} '{}': give one of {}", flag, shown(word), fmt::join(allowed, ", "));
  return word;
}

std::string nearest(std::string_view word, const std::vector<std::string>& names) {
  constexpr std::size_t longest = 100;  // no name has as many; the search takes time by the length
  std::string best;
  if (word.size() > longest)
    return best;
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

#include "actors/command/readers.hpp"

#include <algorithm>
#include <cctype>
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

reader::reader(runtime::bound_words x)
    : take([set = std::move(x.set), range = x.range, choices = x.choices](const auto& flag,
                                                                          const auto& word) {
        if (!takes(range, word))
          throw usage_error("{} '{}': give {}", flag, shown(word), range_text(range));
        set({choices.empty() ? word : chosen(flag, word, choices)});
      }),
      choices(std::move(x.choices)),
      range(x.range),
      now(std::move(x.now)) {}

std::int64_t parse_whole(const std::string& flag, const std::string& word, whole_range range) {
  if (const auto out = number_in(range, word))
    return *out;
  throw usage_error("{} '{}': give {}", flag, shown(word), range_text(range));
}

double parse_real(const std::string& flag, const std::string& word, real_range range) {
  if (const auto out = number_in(range, word))
    return *out;
  throw usage_error("{} '{}': give {}", flag, shown(word), range_text(range));
}

const std::string& chosen(const std::string& flag,
                          const std::string& word,
                          const std::vector<std::string>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), word) == allowed.end())
    throw usage_error("{} '{}': give one of {}", flag, shown(word), fmt::join(allowed, ", "));
  return word;
}

std::string nearest(std::string_view word, const std::vector<std::string>& names) {
  constexpr std::size_t longest = 100;  // more than any name; the search time grows with the length
  std::string best;
  if (word.size() > longest)
    return best;
  const auto letters = std::size_t(std::count_if(
      word.begin(), word.end(), [](unsigned char c) { return std::isalnum(c) != 0; }));
  auto least = std::max<std::size_t>(letters / 3, 1) + 1;
  for (const auto& name : names) {
    // Optimal string alignment, row by row: Levenshtein's distance, with two neighbours that change
    // places as one difference.
    std::vector<std::size_t> before, row(name.size() + 1);
    for (std::size_t j = 0; j <= name.size(); ++j)
      row[j] = j;
    for (std::size_t i = 0; i < word.size(); ++i) {
      auto next = row;
      next[0] = i + 1;
      for (std::size_t j = 0; j < name.size(); ++j) {
        next[j + 1]
            = std::min({row[j] + (word[i] == name[j] ? 0 : 1), next[j] + 1, row[j + 1] + 1});
        if (i > 0 && j > 0 && word[i] == name[j - 1] && word[i - 1] == name[j])
          next[j + 1] = std::min(next[j + 1], before[j - 1] + 1);
      }
      before = std::exchange(row, std::move(next));
    }
    if (row.back() < least) {
      least = row.back();
      best = name;
    }
  }
  return best;
}

}  // namespace troupe::command

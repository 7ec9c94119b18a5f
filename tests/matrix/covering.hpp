// Tables of choices, and selections of rows that cover all pairs or triples of choices.

#pragma once

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::matrix {

struct factor {
  const char* name;
  std::vector<const char*> choices;  ///< at most 16
};

using choice = std::vector<int>;  ///< one choice per factor

/// Calls visit(number) for each set of `size` choices, two or three, in a row.
template <class Visit>
void for_each_set(const choice& x, int size, const Visit& visit) {
  constexpr int most = 16;  // choices of a factor
  const auto number = [&](std::size_t f) { return std::size_t(int(f) * most + x[f]); };
  const auto all = x.size() * std::size_t(most);
  for (std::size_t a = 0; a < x.size(); ++a)
    for (std::size_t b = a + 1; b < x.size(); ++b) {
      const auto two = number(a) * all + number(b);
      if (size == 2)
        visit(two);
      else
        for (std::size_t c = b + 1; c < x.size(); ++c)
          visit(two * all + number(c));
    }
}

struct choice_table {
  std::vector<factor> factors;
  bool (*is_possible)(const choice&);

  /// A line of the table: cell(f) for each factor f, padded to its widest choice.
  template <class Cell>
  std::string line(const Cell& cell) const {
    std::string out;
    for (std::size_t f = 0; f < factors.size(); ++f) {
      const auto& [name, choices] = factors[f];
      auto width = std::max<std::size_t>(std::string_view(name).size(), 5);
      for (const std::string_view one : choices)
        width = std::max(width, one.size());
      out += fmt::format("{}{:{}}", f > 0 ? "  " : "", cell(f), width);
    }
    return out;
  }
  std::string text(const choice& x) const {
    return line([&](std::size_t f) { return factors[f].choices[std::size_t(x[f])]; });
  }
  std::string heading() const {
    return line([&](std::size_t f) { return factors[f].name; });
  }

  std::vector<choice> every() const {
    std::vector<choice> out;
    choice x(factors.size(), 0);
    for (;;) {
      if (is_possible(x))
        out.push_back(x);
      std::size_t f = 0;
      while (f < x.size() && ++x[f] == int(factors[f].choices.size()))
        x[f++] = 0;
      if (f == x.size())
        return out;
    }
  }

  /// Greedily selects the row with the most new sets of `size` choices, until all possible sets are
  /// covered.
  std::vector<choice> covering(int size) const {
    const auto all = every();
    std::vector<char> missing;
    const auto fresh_of = [&](const choice& x) {
      std::size_t out = 0;
      for_each_set(x, size, [&](std::size_t set) { out += std::size_t(missing[set]); });
      return out;
    };
    for (const auto& x : all)
      for_each_set(x, size, [&](std::size_t set) {
        missing.resize(std::max(missing.size(), set + 1));
        missing[set] = 1;
      });
    std::vector<choice> out;
    for (;;) {
      std::size_t most = 0;
      const choice* best = nullptr;
      for (const auto& x : all)
        if (const auto fresh = fresh_of(x); fresh > most) {
          most = fresh;
          best = &x;
        }
      if (best == nullptr)
        return out;
      for_each_set(*best, size, [&](std::size_t set) { missing[set] = 0; });
      out.push_back(*best);
    }
  }
};

}  // namespace troupe::matrix

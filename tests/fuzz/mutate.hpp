// Makes nearly valid inputs by small changes of valid ones.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace troupe::tests::fuzz {

/// Not thread-safe. The same seed and the same calls give the same inputs.
class mutator {
 public:
  mutator(std::uint64_t seed,
          const std::vector<std::string>& corpus,
          std::vector<std::string> words)
      : random_(seed), corpus_(corpus), words_(std::move(words)) {}

  std::string next() {
    auto out = corpus_[below(corpus_.size())];
    for (auto changes = 1 + below(4); changes > 0; --changes)
      change(out);
    return out;
  }

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : std::size_t(random_() % n); }

  void change(std::string& x) {
    switch (below(8)) {
      case 0:
        return flip(x);
      case 1:
        return x.resize(below(x.size() + 1));
      case 2:
        x.erase(below(x.size() + 1), below(17));
        return;
      case 3:
        return repeat(x);
      case 4:
        return splice(x);
      case 5:
        return add_word(x);
      case 6:
        return set_integer(x);
      default:
        return set_number(x);
    }
  }

  void flip(std::string& x) {
    if (!x.empty())
      x[below(x.size())] ^= char(1 << below(8));
  }

  void repeat(std::string& x) {
    const auto piece = x.substr(below(x.size() + 1), below(33));
    const auto at = below(x.size() + 1);
    for (auto times = 1 + below(8); times > 0; --times)
      x.insert(at, piece);
  }

  void splice(std::string& x) {
    const auto& other = corpus_[below(corpus_.size())];
    x = x.substr(0, below(x.size() + 1)) + other.substr(below(other.size() + 1));
  }

  void add_word(std::string& x) {
    if (!words_.empty())
      x.insert(below(x.size() + 1), words_[below(words_.size())]);
  }

  /// Overwrites a field of 1, 2, 4 or 8 bytes, such as a length or a count.
  void set_integer(std::string& x) {
    constexpr std::array<std::uint64_t, 12> edges = {0,
                                                     1,
                                                     0x7f,
                                                     0xff,
                                                     0x7fff,
                                                     0xffff,
                                                     0x7fffffff,
                                                     0x80000000,
                                                     0xffffffff,
                                                     ~0ULL >> 1,
                                                     ~0ULL >> 2,
                                                     ~0ULL};
    const auto width = std::size_t{1} << below(4);
    if (x.size() < width)
      return;
    const auto at = below(x.size() - width + 1);
    std::uint64_t value = 0;
    std::memcpy(&value, x.data() + at, width);
    value = below(2) == 0 ? edges[below(edges.size())] : value + below(9) - 4;
    std::memcpy(x.data() + at, &value, width);
  }

  /// Replaces a decimal number.
  void set_number(std::string& x) {
    static const std::array<std::string, 12> edges = {"0",
                                                      "-1",
                                                      "1e999",
                                                      "4294967296",
                                                      "9223372036854775807",
                                                      "0.5",
                                                      "2147483647",
                                                      "2147483648",
                                                      "-0",
                                                      "00",
                                                      "18446744073709551616",
                                                      "1e-400"};
    const std::string digits = "0123456789";
    const auto first = x.find_first_of(digits, below(x.size() + 1));
    if (first == x.npos)
      return;
    const auto last = std::min(x.find_first_not_of(digits, first), x.size());
    x.replace(first, last - first, edges[below(edges.size())]);
  }

  std::mt19937_64 random_;
  const std::vector<std::string>& corpus_;
  std::vector<std::string> words_;
};

}  // namespace troupe::tests::fuzz

// CHECKPOINT-COVER: every element of a tensor is in exactly one piece.

#include "runtime/checkpoint/cover.hpp"

#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <random>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string fault(const shape& whole, const std::vector<box>& pieces) {
  return cover_fault(whole, pieces).value_or("");
}

/// Checks small tensors by counting each element.
bool covers_by_counting(const shape& of, const std::vector<box>& pieces) {
  const auto all = whole(of);
  std::vector<std::uint8_t> counts(std::size_t(of.size()));
  for (const auto& x : pieces) {
    const std::vector<std::uint8_t> ones(std::size_t(x.size()), 1);
    std::vector<std::uint8_t> here(counts.size());
    copy_common(x, ones.data(), all, here.data(), 1);
    for (std::size_t i = 0; i < counts.size(); ++i)
      counts[i] = std::uint8_t(counts[i] + here[i]);
  }
  return std::all_of(counts.begin(), counts.end(), [](int n) { return n == 1; });
}

}  // namespace

TEST_CASE("pieces that cover a tensor once are accepted, for any split", "[checkpoint]") {
  CHECK_BREAKS("COVER-1", fault({7}, {{{3}, {5}}}));
  CHECK(fault({}, {{{}, {}}}) == "");
  CHECK(fault({7}, {{{0}, {7}}}) == "");
  CHECK(fault({0, 5}, {{{0, 0}, {0, 5}}}) == "");
  CHECK(fault({4, 6}, {{{0, 0}, {4, 3}}, {{0, 3}, {2, 3}}, {{2, 3}, {2, 3}}}) == "");
  // Five boxes around a centre: every straight cut splits one.
  CHECK(fault({3, 3},
              {{{0, 0}, {1, 2}},
               {{0, 2}, {2, 1}},
               {{2, 1}, {1, 2}},
               {{1, 0}, {2, 1}},
               {{1, 1}, {1, 1}}})
        == "");
  const auto ranges = boxes_of_range(whole({3, 4, 5}), 7, 49);
  auto all = boxes_of_range(whole({3, 4, 5}), 0, 7);
  all.insert(all.end(), ranges.begin(), ranges.end());
  for (const auto& x : boxes_of_range(whole({3, 4, 5}), 49, 60))
    all.push_back(x);
  CHECK(fault({3, 4, 5}, all) == "");
}

TEST_CASE("a gap is reported as the missing box", "[checkpoint]") {
  CHECK(fault({7}, {}) == "[0:7] is in none of its 0 pieces");
  CHECK(fault({8, 8}, {{{0, 0}, {4, 8}}, {{4, 4}, {4, 4}}})
        == "[4:8, 0:4] is in none of its 2 pieces");
  std::vector<box> grid;
  for (std::int64_t i = 0; i < 10; ++i)
    for (std::int64_t j = 0; j < 10; ++j)
      if (i != 6 || j != 3)
        grid.push_back({{10 * i, 7 * j}, {10, 7}});
  CHECK(fault({100, 70}, grid) == "[60:70, 21:28] is in none of its 99 pieces");
  CHECK(fault({}, {}) == "[] is in none of its 0 pieces");
}

TEST_CASE("a duplicate part is reported", "[checkpoint]") {
  CHECK(fault({7}, {{{0}, {7}}, {{0}, {7}}}) == "[0:7] is in two pieces");
  CHECK(fault({4, 4}, {{{0, 0}, {3, 4}}, {{2, 0}, {2, 4}}})
        == "its pieces [0:3, 0:4] and [2:4, 0:4] overlap");
  CHECK_THAT(fault({0, 5}, {{{0, 0}, {0, 5}}, {{0, 0}, {0, 5}}}), ContainsSubstring("2 pieces"));
  CHECK_THAT(fault({4}, {{{0}, {4}}, {{2}, {0}}}), ContainsSubstring("without elements"));
}

TEST_CASE("random boxes are judged as by counting", "[checkpoint]") {
  std::mt19937 random(1);
  int good = 0;
  for (int round = 0; round < 4000; ++round) {
    const shape of = {1 + std::int64_t(random() % 4),
                      1 + std::int64_t(random() % 4),
                      1 + std::int64_t(random() % 3)};
    // Splits at random planes, then sometimes changes one box.
    std::vector<box> pieces = {whole(of)};
    for (int cuts = int(random() % 6); cuts > 0; --cuts) {
      const auto which = random() % pieces.size();
      const auto x = pieces[which];
      const auto at = std::int64_t(random() % std::uint64_t(x.size() + 1));
      pieces.erase(pieces.begin() + std::ptrdiff_t(which));
      for (const auto& [begin, end] : {std::pair(std::int64_t(0), at), std::pair(at, x.size())})
        for (const auto& part : boxes_of_range(x, begin, end))
          pieces.push_back(part);
    }
    if (random() % 2 == 0) {
      auto& x = pieces[random() % pieces.size()];
      x = pieces[random() % pieces.size()];
    }
    const bool expected = covers_by_counting(of, pieces);
    good += expected;
    const auto said = fault(of, pieces);
    INFO(said);
    CHECK((said == "") == expected);
  }
  CHECK(good > 1000);
}

TEST_CASE("tens of thousands of pieces are checked", "[checkpoint][unthreaded]") {
  // 64 column shards, each sharded over 512 ranks by a distributed optimizer.
  const shape of = {32768, 8192};
  std::vector<box> pieces;
  for (std::int64_t column = 0; column < 64; ++column) {
    const box shard{{0, 128 * column}, {32768, 128}};
    const auto each = (shard.size() + 511) / 512 + 17;
    for (std::int64_t begin = 0; begin < shard.size(); begin += each)
      for (const auto& x : boxes_of_range(shard, begin, std::min(shard.size(), begin + each)))
        pieces.push_back(x);
  }
  CHECK(pieces.size() > 60000);
  CHECK(fault(of, pieces) == "");
  pieces.erase(pieces.begin() + 30000);
  CHECK_THAT(fault(of, pieces), ContainsSubstring("is in none of its"));
}

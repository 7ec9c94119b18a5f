#include "runtime/tensor/box.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tensor/shard.hpp"
#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

using place_in = std::array<std::int64_t, 4>;

/// All indices of a box, row-major.
std::vector<place_in> indices(const box& x) {
  std::vector<place_in> out;
  const auto extent = [&](int i) { return i < x.extents.rank() ? x.extents[i] : 1; };
  const auto first = [&](int i) { return i < x.extents.rank() ? x.first[i] : 0; };
  for (std::int64_t a = 0; a < extent(0); ++a)
    for (std::int64_t b = 0; b < extent(1); ++b)
      for (std::int64_t c = 0; c < extent(2); ++c)
        for (std::int64_t d = 0; d < extent(3); ++d)
          out.push_back({first(0) + a, first(1) + b, first(2) + c, first(3) + d});
  return out;
}

std::int64_t below(std::mt19937& rng, std::int64_t n) {
  return std::int64_t(rng() % std::uint64_t(n));
}

box random_box(std::mt19937& rng, int rank) {
  box out;
  for (int i = 0; i < rank; ++i) {
    out.first.push_back(below(rng, 4));
    out.extents.push_back(1 + below(rng, 5));
  }
  return out;
}

}  // namespace

TEST_CASE("the intersection of two boxes holds the indices that are in both", "[box]") {
  std::mt19937 rng{1};
  int disjoint = 0;
  for (int round = 0; round < 400; ++round) {
    const int rank = round % 5;
    const auto a = random_box(rng, rank), b = random_box(rng, rank);
    const auto in_b = indices(b);
    std::vector<place_in> expected;
    for (const auto& i : indices(a))
      if (std::find(in_b.begin(), in_b.end(), i) != in_b.end())
        expected.push_back(i);
    const auto both = intersection(a, b);
    REQUIRE(both.size() == std::int64_t(expected.size()));
    REQUIRE(intersection(b, a).size() == both.size());
    if (both.size() > 0)
      REQUIRE(indices(both) == expected);
    disjoint += both.size() == 0;
  }
  CHECK(disjoint > 20);
  CHECK(disjoint < 300);
}

TEST_CASE("BOX-1: boxes of one tensor have the same rank", "[box]") {
  CHECK_THROWS_MATCHES(
      intersection(whole({2, 3}), whole({2})), broken_promise, MessageMatches(StartsWith("BOX-1")));
}

TEST_CASE("a range is split into few boxes that cover its elements in order", "[box]") {
  std::mt19937 rng{2};
  std::size_t most = 0;
  for (int round = 0; round < 2000; ++round) {
    const int rank = 1 + round % 4;
    const auto of = random_box(rng, rank);
    auto begin = below(rng, of.size() + 1), end = below(rng, of.size() + 1);
    if (begin > end)
      std::swap(begin, end);
    const auto all = indices(of);
    const std::vector<place_in> expected(all.begin() + begin, all.begin() + end);
    std::vector<place_in> seen;
    const auto boxes = boxes_of_range(of, begin, end);
    for (const auto& x : boxes) {
      REQUIRE(x.extents.rank() == rank);
      REQUIRE(x.size() > 0);
      const auto part = indices(x);
      seen.insert(seen.end(), part.begin(), part.end());
    }
    CAPTURE(to_string(of), begin, end);
    REQUIRE(seen == expected);
    REQUIRE(boxes.size() <= std::size_t(2 * rank - 1));
    most = std::max(most, boxes.size());
  }
  CHECK(most == 7);  // a range of rank 4 can need the maximum
}

TEST_CASE("the full range is the box itself; an empty range has no boxes", "[box]") {
  const box x{{3, 1}, {2, 5}};
  CHECK(boxes_of_range(x, 0, 10) == std::vector<box>{x});
  CHECK(boxes_of_range(x, 4, 4).empty());
  CHECK(boxes_of_range(whole({}), 0, 1) == std::vector<box>{whole({})});
  CHECK(boxes_of_range({{0, 2}, {0, 5}}, 0, 0).empty());
  CHECK(boxes_of_range(x, 5, 10) == std::vector<box>{{{4, 1}, {1, 5}}});
}

TEST_CASE("BOX-2: a range is inside its box", "[box]") {
  for (const auto& [begin, end] : {std::pair{-1, 2}, {3, 2}, {0, 11}})
    CHECK_THROWS_MATCHES(boxes_of_range({{3, 1}, {2, 5}}, begin, end),
                         broken_promise,
                         MessageMatches(StartsWith("BOX-2")));
}

TEST_CASE("contains says whether a box is inside a tensor", "[box]") {
  CHECK(contains({4, 6}, {{1, 2}, {3, 4}}));
  CHECK(contains({4, 6}, whole({4, 6})));
  CHECK(contains({4, 6}, {{4, 6}, {0, 0}}));
  CHECK_FALSE(contains({4, 6}, {{1, 3}, {3, 4}}));
  CHECK_FALSE(contains({4, 6}, {{-1, 0}, {1, 1}}));
  CHECK_FALSE(contains({4, 6}, {{0, 0}, {-1, 1}}));
  CHECK_FALSE(contains({4, 6}, {{0}, {1}}));
  const auto far = std::numeric_limits<std::int64_t>::max();
  CHECK_FALSE(contains({4, 6}, {{far, 0}, {far, 1}}));  // their ends overflow
}

TEST_CASE("copying the intersection equals a loop over all indices", "[box]") {
  std::mt19937 rng{3};
  for (int round = 0; round < 500; ++round) {
    const int rank = round % 5;
    const auto a = random_box(rng, rank), b = random_box(rng, rank);
    std::vector<std::int32_t> from(std::size_t(a.size())), to(std::size_t(b.size()), -1);
    std::iota(from.begin(), from.end(), 100);
    auto expected = to;
    const auto of_a = indices(a), of_b = indices(b);
    for (std::size_t i = 0; i < of_a.size(); ++i)
      for (std::size_t j = 0; j < of_b.size(); ++j)
        if (of_a[i] == of_b[j])
          expected[j] = from[i];
    copy_common(a, from.data(), b, to.data(), sizeof(std::int32_t));
    CAPTURE(to_string(a), to_string(b));
    REQUIRE(to == expected);
  }
}

TEST_CASE("a shard is filled from the whole tensor", "[box]") {
  const std::vector<float> all = {0, 1, 2, 3, 4, 5};
  std::vector<float> elements(2);
  const tensor_shard<std::span<float>> x{"x", {2, 3}, {{0, 1}, {2, 1}}, elements};
  fill(x, all);
  CHECK(elements == std::vector<float>{1, 4});
  CHECK_BREAKS("SHARD-1", fill(x, std::span(all).first(5)));
}

// Detection of the rank with wrong bits: the table in docs/protocol/verification.md, row by row.

#include "actors/supervisor/cross_check.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <set>
#include <string>
#include <vector>

using namespace troupe;
using actors::bits_verdict;
using actors::checked_bits;
using actors::cross_check;
using actors::wrong_bits;

namespace {

using what_they_had = std::vector<std::uint64_t>;

/// A ballot of ranks from `first` on.
actors::ballot ballot(const what_they_had& values, int first = 0) {
  actors::ballot out{.first = first};
  for (const auto x : values) {
    out.ranks.push_back(first + int(out.ranks.size()));
    out.digests.push_back({x, 1});
  }
  return out;
}
std::vector<actors::ballot> of(const what_they_had& values) {
  return {ballot(values)};
}

wrong_bits guilty_are(bits_verdict x, std::vector<int> who, std::vector<int> replaced = {}) {
  return {x, 0, 0, std::move(who), std::move(replaced)};
}

struct checked {
  cross_check by;
  cross_check::answer last = {};

  wrong_bits hears(const what_they_had& values, std::uint64_t step = 4) {
    last = by.compare(step, checked_bits::gradients, of(values));
    REQUIRE(last.found.size() == 1);
    return last.found.front();
  }
};

}  // namespace

TEST_CASE("VERIFY-1: equal replicas are not accused", "[actors]") {
  cross_check x;
  for (const std::size_t replicas : {1U, 2U, 5U}) {
    const auto said = x.compare(4, checked_bits::gradients, of(what_they_had(replicas, 7)));
    CHECK(said.alike);
    CHECK(said.found.empty());
  }
  CHECK(x.compare(4, checked_bits::state, {}).alike);
}

TEST_CASE("each case lists the parameters that differed", "[actors]") {
  cross_check x;
  using names = std::set<std::string>;
  const auto told = [&](std::uint64_t step, const what_they_had& values, const names& differ) {
    auto all = of(values);
    all.front().parameters = differ;
    const auto said
        = x.compare(step, step == 4 ? checked_bits::gradients : checked_bits::passes, all);
    REQUIRE(said.found.size() == 1);
    return said.found[0].parameters;
  };
  CHECK(told(4, {1, 2}, {"w"}) == names{"w"});
  CHECK(told(5, {1, 2}, {}).empty());
  CHECK(told(4, {1, 1}, {}) == names{"w"});
}

TEST_CASE("VERIFY-1: the minority of three or more replicas is guilty at once and replaced",
          "[actors]") {
  const auto [values, guilty]
      = GENERATE(table<what_they_had, std::vector<int>>({{{1, 1, 2}, {2}},
                                                         {{3, 1, 1}, {0}},
                                                         {{1, 2, 1, 1}, {1}},
                                                         {{1, 2, 1, 3, 1}, {1, 3}},
                                                         {{2, 1, 1, 2, 1}, {0, 3}}}));
  checked it;
  CHECK(it.hears(values) == guilty_are(bits_verdict::outvoted, guilty, guilty));
  CHECK_FALSE(it.last.alike);
  // After the rerun all replicas are equal and the case is closed.
  const auto again = it.by.compare(4, checked_bits::gradients, of(what_they_had(values.size(), 1)));
  CHECK(again.alike);
  CHECK(again.found.empty());
}

TEST_CASE("VERIFY-1: with two replicas the repeated step names the guilty one", "[actors]") {
  const int guilty = GENERATE(0, 1);
  checked it;
  CHECK(it.hears({1, 2}) == guilty_are(bits_verdict::undecided, {0, 1}, {}));
  CHECK_FALSE(it.last.alike);
  const std::uint64_t right = guilty == 0 ? 2 : 1;
  CHECK(it.hears({right, right}) == guilty_are(bits_verdict::transient, {guilty}, {}));
  CHECK(it.last.alike);
}

TEST_CASE("without a majority one computation names no replica", "[actors]") {
  const auto first = GENERATE(values<what_they_had>({{1, 2}, {1, 2, 3}, {1, 1, 2, 2}}));
  checked it;
  const auto said = it.hears(first);
  CHECK(said.verdict == bits_verdict::undecided);
  CHECK(said.replaced.empty());
  const auto then = it.hears(what_they_had(first.size(), 1));
  CHECK(then.verdict == bits_verdict::transient);
  CHECK(then.ranks.front() > 0);
}

TEST_CASE("a replica with another result each time is guilty and replaced", "[actors]") {
  checked it;
  it.hears({1, 2});
  CHECK(it.hears({1, 3}) == guilty_are(bits_verdict::persistent, {1}, {1}));
  CHECK_FALSE(it.last.alike);
}

TEST_CASE(
    "replicas with different persistent results are replaced one after the other until they agree",
    "[actors]") {
  const int guilty = GENERATE(0, 1);
  checked it;
  it.hears({1, 2});
  CHECK(it.hears({1, 2}) == guilty_are(bits_verdict::undecided, {0, 1}, {0}));
  const std::uint64_t right = guilty == 0 ? 2 : 1;
  if (guilty == 1)  // the new place repeats the first one's result
    CHECK(it.hears({1, 2}) == guilty_are(bits_verdict::undecided, {0, 1}, {1}));
  CHECK(it.hears({right, right}) == guilty_are(bits_verdict::persistent, {guilty}, {}));
  CHECK(it.last.alike);
}

TEST_CASE("two replicas that differ on all places are replaced only once each", "[actors]") {
  checked it;
  for (int i = 0; i < 3; ++i)
    it.hears({1, 2});
  CHECK(it.hears({1, 2}) == guilty_are(bits_verdict::undecided, {0, 1}, {}));
}

TEST_CASE("results that all change each time are irreproducible", "[actors]") {
  checked it;
  it.hears({1, 2});
  SECTION("equal in the end") {
    CHECK(it.hears({3, 3}) == guilty_are(bits_verdict::irreproducible, {0, 1}, {}));
    CHECK(it.last.alike);
  }
  SECTION("different again") {
    CHECK(it.hears({3, 4}) == guilty_are(bits_verdict::irreproducible, {0, 1}, {}));
    CHECK_FALSE(it.last.alike);
  }
}

TEST_CASE("a replica with an earlier fault is replaced at once when two differ", "[actors]") {
  checked it;
  it.hears({1, 2}, 4);
  it.hears({1, 1}, 4);
  CHECK(it.hears({5, 6}, 9) == guilty_are(bits_verdict::undecided, {0, 1}, {1}));
}

TEST_CASE("ranks are judged by those that must be like them, gradients and states apart",
          "[actors]") {
  cross_check x;
  const auto said = x.compare(
      4, checked_bits::state, {ballot({1, 1, 5}), ballot({1, 2, 1}, 3), ballot({9, 9, 9}, 6)});
  CHECK_FALSE(said.alike);
  REQUIRE(said.found.size() == 2);
  CHECK(said.found[0] == guilty_are(bits_verdict::outvoted, {2}, {2}));
  CHECK(said.found[1] == wrong_bits{bits_verdict::outvoted, 3, 0, {4}, {4}});
  checked it;
  it.hears({1, 2});
  CHECK(it.by.compare(4, checked_bits::state, of({5, 5})).found.empty());
  CHECK(it.hears({1, 1}).verdict == bits_verdict::transient);
}

TEST_CASE("a run that goes back several steps still finds the guilty replica", "[actors]") {
  checked it;
  it.hears({1, 2}, 4);
  for (const std::uint64_t step : {2U, 3U})
    CHECK(it.by.compare(step, checked_bits::gradients, of({8, 8})).found.empty());
  CHECK(it.hears({2, 2}, 4) == guilty_are(bits_verdict::transient, {0}, {}));
}

#include "runtime/model/slot_plan.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <limits>

using namespace troupe::runtime;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

using ints = std::vector<std::int32_t>;
using longs = std::vector<std::int64_t>;

// Five rows choose two of three experts. Expert 0 is chosen by rows 0, 1, 2 and 4.
const ints chosen{0, 1, 2, 0, 0, 1, 1, 2, 0, 2};
const std::vector<float> weights{.3F, .7F, .6F, .4F, .9F, .1F, .5F, .5F, .4F, .6F};

}  // namespace

TEST_CASE("slots are in the order of experts, then of rows", "[slots]") {
  const auto x = plan_slots(chosen, {}, 2, 3);
  CHECK(x.place == ints{0, 3, 4, 8, 1, 5, 6, 2, 7, 9});
  CHECK(x.offsets == longs{0, 4, 7, 10});
  CHECK(x.slot == ints{0, 4, 7, 1, 2, 5, 6, 8, 3, 9});
  CHECK(x.dropped == 0);
}

TEST_CASE("an expert without rows, and no row at all", "[slots]") {
  const ints one{2, 2};
  CHECK(plan_slots(one, {}, 1, 4).offsets == longs{0, 0, 0, 2, 2});
  const auto none = plan_slots({}, {}, 2, 3);
  CHECK(none.offsets == longs{0, 0, 0, 0});
  CHECK(none.place.empty());
  CHECK(plan_slots({}, {}, 2, 3, {.factor = 2, .padded = true}).place.empty());
}

TEST_CASE("the capacity is rounded up and at most the number of rows", "[slots]") {
  CHECK(capacity_of(5, 2, 3, 1) == 4);
  CHECK(capacity_of(6, 2, 3, 1) == 4);
  CHECK(capacity_of(5, 2, 3, 0.5) == 2);
  CHECK(capacity_of(5, 2, 3, 100) == 5);
  CHECK(capacity_of(5, 2, 3, 1e300) == 5);
  CHECK(capacity_of(0, 2, 3, 1) == 0);
}

TEST_CASE("an expert keeps its first rows or those of the largest weights", "[slots]") {
  // A factor of 0.5 gives two slots to each expert.
  const auto first = plan_slots(chosen, weights, 2, 3, {.factor = 0.5, .by_position = true});
  CHECK(first.place == ints{0, 3, 1, 5, 2, 7});
  CHECK(first.slot == ints{0, 2, 4, 1, -1, 3, -1, 5, -1, -1});
  CHECK(first.dropped == 4);
  // Rows 1 and 4 have equal weights for expert 0, rows 1 and 4 for expert 2.
  const auto largest = plan_slots(chosen, weights, 2, 3, {.factor = 0.5});
  CHECK(largest.place == ints{3, 4, 1, 6, 2, 9});
  CHECK(largest.offsets == longs{0, 2, 4, 6});
  CHECK(largest.dropped == 4);
  auto with_nan = weights;
  with_nan[8] = std::numeric_limits<float>::quiet_NaN();
  CHECK(plan_slots(chosen, with_nan, 2, 3, {.factor = 0.5}).place == ints{4, 8, 1, 6, 2, 9});
}

TEST_CASE("padding fills each expert to its capacity", "[slots]") {
  const auto x = plan_slots(chosen, weights, 2, 3, {.factor = 1, .padded = true});
  CHECK(x.place == ints{0, 3, 4, 8, 1, 5, 6, -1, 2, 7, 9, -1});
  CHECK(x.offsets == longs{0, 4, 8, 12});
  CHECK(x.slot[9] == 10);
}

TEST_CASE("SLOT-1: capacities that cannot be met are refused", "[slots]") {
  constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
  const auto refuses = [](std::int64_t k, const capacity_rules& rules) {
    CHECK_THROWS_MATCHES(plan_slots(chosen, weights, k, 3, rules),
                         broken_promise,
                         MessageMatches(StartsWith("SLOT-1")));
  };
  refuses(2, {.padded = true});
  refuses(2, {.factor = -1});
  refuses(2, {.factor = not_a_number});
  refuses(0, {.factor = 1});
}

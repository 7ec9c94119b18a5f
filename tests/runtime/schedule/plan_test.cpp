#include "runtime/schedule/plan.hpp"

#include "runtime/schedule/csv.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::runtime;

TEST_CASE("1F1B warms up with one forward per following stage", "[schedule]") {
  CHECK(to_csv(one_forward_one_backward(4, 4))
        == "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n"
           "1F0,1F1,1F2,1B0,1F3,1B1,1B2,1B3\n"
           "2F0,2F1,2B0,2F2,2B1,2F3,2B2,2B3\n"
           "3F0,3B0,3F1,3B1,3F2,3B2,3F3,3B3\n");
}

namespace {

/// 2 stages: the first recomputes all of its 3 blocks, the second one of 2.
plan recomputed(plan x) {
  return with_recomputation(std::move(x), {{1, 1, 1}, {1, 0}});
}

}  // namespace

TEST_CASE("recomputation replaces every B by its blocks, the last first, each R before its I",
          "[schedule]") {
  CHECK(to_csv(recomputed(one_forward_one_backward(2, 2)))
        == "0F0,0F1,0R0.2,0I0.2,0W0.2,0R0.1,0I0.1,0W0.1,0R0,0I0,0W0,"
           "0R1.2,0I1.2,0W1.2,0R1.1,0I1.1,0W1.1,0R1,0I1,0W1\n"
           "1F0,1I0.1,1W0.1,1R0,1I0,1W0,1F1,1I1.1,1W1.1,1R1,1I1,1W1\n");
}

TEST_CASE("recomputation splits I and W that are separate", "[schedule]") {
  plan x{"apart", 1, 1, true, {0}, {{}}};
  for (const auto kind :
       {action_kind::forward, action_kind::input_gradients, action_kind::weight_gradients})
    x.ranks[0].push_back({kind, chunk_id(0), microbatch_id(0)});
  const auto seen = with_recomputation(x, {{1, 0}});
  CHECK(to_csv(seen) == "0F0,0I0.1,0R0,0I0,0W0.1,0W0\n");
}

TEST_CASE("without recomputed blocks or a backward pass, a plan stays unchanged", "[schedule]") {
  const auto x = one_forward_one_backward(2, 3);
  CHECK(with_recomputation(x, {{0}, {0}}) == x);
  const auto y = forward_only(2, 3);
  CHECK(with_recomputation(y, {{1, 1}, {1, 0}}) == y);
}

#include "runtime/schedule/execution.hpp"

#include "runtime/core/error.hpp"
#include "runtime/schedule/generators.hpp"
#include "runtime/schedule/lower.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <string>

using namespace troupe::runtime;
using Catch::Approx;

namespace {

plan split(plan x) {
  for (auto& row : x.ranks) {
    row = with_split_backward(row);
    for (auto& a : row)
      a.with_next = false;
  }
  return x;
}

/// The plan executed as simulated, with `late` added to all times.
std::vector<std::vector<timed_action>> executed(const plan& x, const cost_model& by, double late) {
  std::vector<std::vector<timed_action>> out;
  for (auto& rank : simulate(x, by).ranks) {
    out.push_back(rank.actions);
    for (auto& a : out.back()) {
      a.begin += late;
      a.end += late;
    }
  }
  return out;
}

}  // namespace

TEST_CASE("an execution as planned has no differences", "[schedule]") {
  const std::string name = GENERATE("1f1b", "interleaved", "zb-v", "dualpipe");
  CAPTURE(name);
  const auto x = split(generate(name, {.ranks = 4, .microbatches = 8}));
  cost_model by;
  by.costs = {{.forward = 2, .input_gradients = 3, .weight_gradients = 1}};
  by.transfer = 0.25;
  const auto found = compare(x, executed(x, by, 1000));
  CHECK(found.makespan == Approx(simulate(x, by).makespan));
  CHECK(found.planned_makespan == Approx(found.makespan));
  CHECK(found.planned_bubble == Approx(found.bubble));
  CHECK(found.bubble == Approx(simulate(x, by).bubble()));
  CHECK(found.measured.transfer == Approx(0.25));
  CHECK(found.measured.costs[0].input_gradients == Approx(3));
  CHECK(found.lateness == Approx(0).margin(1e-9));
}

TEST_CASE("rows by clocks of several hosts are compared on one clock", "[schedule]") {
  const std::string name = GENERATE("1f1b", "interleaved", "zb-v", "dualpipe");
  const double ahead = GENERATE(-3e9, -40.0, 40.0, 3e9);
  CAPTURE(name, ahead);
  const auto x = split(generate(name, {.ranks = 4, .microbatches = 8}));
  cost_model by;
  by.costs = {{.forward = 2, .input_gradients = 3, .weight_gradients = 1}};
  by.transfer = 0.25;
  auto rows = executed(x, by, 1000);
  for (const auto rank : {1, 2})
    for (auto& a : rows[std::size_t(rank)]) {
      a.begin += ahead * rank;
      a.end += ahead * rank;
    }
  const auto found = compare(x, rows, {7, 5, 9, 7});
  // The doubles of 3e9 ms are 5e-7 ms apart. The shortest hand-offs differ by less than one action.
  CHECK(found.makespan == Approx(simulate(x, by).makespan).margin(3));
  const auto between = [](const auto& all) { return all[2][0].begin - all[0][0].begin; };
  CHECK(between(found.executed) == Approx(between(executed(x, by, 1000))).margin(3));
}

TEST_CASE("rows by one clock are not moved", "[schedule]") {
  const auto x = split(generate("1f1b", {.ranks = 4, .microbatches = 8}));
  auto rows = executed(x, {}, 1000);
  for (auto& a : rows[1]) {  // a device's action may begin before its input has arrived
    a.begin -= 1;
    a.end -= 1;
  }
  const auto found = compare(x, rows, {3, 3, 3, 3});
  for (std::size_t r = 0; r < rows.size(); ++r)
    CHECK(found.executed[r][0].begin == rows[r][0].begin);
}

TEST_CASE("a late action is reported", "[schedule]") {
  const auto x = split(generate("1f1b", {.ranks = 2, .microbatches = 4}));
  auto rows = executed(x, {}, 0);
  auto& last = rows[0].back();
  last.begin += 6;
  last.end += 6;
  const auto found = compare(x, rows);
  CHECK(found.makespan == Approx(found.planned_makespan + 6));
  CHECK(found.worst_lateness == Approx(6));
  CHECK(found.lateness == Approx(6.0 / 24));  // of 2 ranks with 4 of each of F, I and W
  CHECK(found.bubble > found.planned_bubble);
}

TEST_CASE("EXECUTION-1: ranks without or with incomplete reports are refused",
          "[schedule][invariant]") {
  const auto x = split(generate("1f1b", {.ranks = 2, .microbatches = 2}));
  auto rows = executed(x, {}, 0);
  rows[1].pop_back();
  rows[1].erase(rows[1].begin());
  CHECK_THROWS_AS(compare(x, rows), broken_promise);
  rows.pop_back();
  CHECK_THROWS_AS(compare(x, rows), broken_promise);
}

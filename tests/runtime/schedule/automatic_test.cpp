#include "runtime/schedule/automatic.hpp"

#include "runtime/core/error.hpp"
#include "runtime/schedule/check.hpp"
#include "runtime/schedule/search.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <random>

using namespace troupe::runtime;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

cost_model costs_of(const schedule_request& request, int chunks_per_rank) {
  auto out = shared_costs(request.costs, chunks_per_rank);
  out.transfer = request.transfer;
  if (!request.each.empty())
    out.costs = request.each;
  return out;
}

struct told {
  double makespan, peak;
};

told measure(const schedule_request& request, const plan& x) {
  const int v = x.chunks / request.ranks;
  const auto when = simulate(x, costs_of(request, v));
  told out{when.makespan, 0};
  for (const auto& rank : when.ranks)
    out.peak = std::max(out.peak, double(rank.peak_chunks) / v);
  return out;
}

double bound_of(const schedule_request& request, const plan& x) {
  const int v = x.chunks / request.ranks;
  search_problem of{request.ranks, request.microbatches, x.placement, costs_of(request, v), 0};
  of.capacity = request.microbatches * v;
  if (request.memory_limit > 0)
    of.capacity = std::min(of.capacity, int(request.memory_limit * v + 1e-9));
  return lower_bound(of);
}

std::vector<plan> named_that_fit(const schedule_request& request) {
  std::vector<plan> out;
  for (const auto& name : named_schedules()) {
    if (name.copies > 1 || name.name == "auto")
      continue;
    for (const int v : {1, 2}) {
      if ((request.chunks_per_rank != 0 && request.chunks_per_rank != v)
          || (name.chunks_per_rank != v && !name.other_chunks))
        continue;
      auto asked = request;
      asked.chunks_per_rank = v;
      asked.each.clear();
      try {
        auto x = generate(name.name, asked);
        if (request.memory_limit == 0 || measure(request, x).peak <= request.memory_limit + 1e-9)
          out.push_back(std::move(x));
      } catch (const input_error&) {
      }
    }
  }
  return out;
}

schedule_request draw(std::mt19937& luck) {
  const auto one_of = [&](const auto& from) { return from[luck() % std::size(from)]; };
  schedule_request out;
  out.ranks = one_of(std::vector{1, 2, 3, 4, 5, 8});
  out.microbatches = one_of(std::vector{1, 2, 3, 5, 8, 13, 16});
  out.chunks_per_rank = one_of(std::vector{0, 0, 1, 2});
  const std::vector<double> times{0, 0.3, 0.7, 1, 1.1, 2.5};
  out.costs = {one_of(times), one_of(times), one_of(times)};
  out.costs.forward += 0.1;
  if (luck() % 4 == 0)
    out.costs.overlapped
        = 0.8 * (out.costs.forward + out.costs.input_gradients + out.costs.weight_gradients);
  out.transfer = one_of(std::vector{0.0, 0.0, 0.1, 0.6});
  out.memory_limit
      = one_of(std::vector{0.0, 1.0, 1.5, 2.0, double(out.ranks), 2.0 * out.ranks - 1});
  return out;
}

}  // namespace

TEST_CASE(
    "SEARCH-2: the result is sound, keeps its memory limit, and no named schedule that fits is "
    "faster",
    "[schedule][unsanitized]") {
  std::mt19937 luck(7);
  for (int i = 0; i < 40; ++i) {
    const auto request = draw(luck);
    CAPTURE(request.ranks,
            request.microbatches,
            request.chunks_per_rank,
            request.memory_limit,
            request.transfer,
            request.costs.forward,
            request.costs.input_gradients,
            request.costs.weight_gradients,
            request.costs.overlapped);
    const auto found = find_best(request);
    CHECK(validate(found.what).empty());
    const auto is = measure(request, found.what);
    CHECK(is.makespan == Approx(found.makespan));
    if (request.memory_limit > 0)
      CHECK(is.peak <= request.memory_limit + 1e-9);
    CHECK(found.lower_bound <= found.makespan);
    // Sums in another order differ in the last digits.
    CHECK(bound_of(request, found.what) <= found.makespan * (1 + 1e-9));
    for (const auto& x : named_that_fit(request)) {
      const auto makespan = measure(request, x).makespan;
      CAPTURE(x.name, x.chunks);
      CHECK(found.makespan <= makespan * (1 + 1e-9));
      CHECK(bound_of(request, x) <= makespan * (1 + 1e-9));
    }
  }
}

TEST_CASE("with unequal times and transfers the result is faster than all named schedules",
          "[schedule][unsanitized]") {
  for (const auto& [p, m, limit] : {std::tuple{4, 10, 4.0}, {8, 19, 8.0}, {4, 9, 2.5}}) {
    CAPTURE(p, m, limit);
    const schedule_request request{p, 0, m, 0, limit, {1, 1.1, 0.7}, 0.1};
    const auto found = find_best(request);
    for (const auto& x : named_that_fit(request))
      CHECK(found.makespan < measure(request, x).makespan);
    CHECK(accumulates_in_order(found.what));
    if (limit >= p)
      CHECK(found.makespan < 1.07 * found.lower_bound);
  }
}

TEST_CASE("the search takes uneven stages into account", "[schedule][unsanitized]") {
  for (const int v : {1, 2}) {
    // An embedding is cheap; a head with a large vocabulary is expensive.
    schedule_request request{4, v, 11, 0, 6, {}, 0.05};
    for (int c = 0; c < 4 * v; ++c)
      request.each.push_back(c == 0           ? action_costs{0.6, 0.5, 0.4}
                             : c == 4 * v - 1 ? action_costs{1.6, 1.5, 0.9}
                                              : action_costs{1, 1.1, 0.7});
    const auto found = find_best(request);
    CHECK(found.what.chunks == 4 * v);
    CHECK(validate(found.what).empty());
    CHECK(measure(request, found.what).makespan == Approx(found.makespan));
    CHECK(found.lower_bound <= found.makespan);
    for (const auto& x : named_that_fit(request)) {
      CHECK(found.makespan <= measure(request, x).makespan * (1 + 1e-9));
      CHECK(bound_of(request, x) <= measure(request, x).makespan * (1 + 1e-9));
    }
    request.each.pop_back();
    CHECK_THROWS_WITH(find_best(request), ContainsSubstring("give those of all chunks"));
  }
  schedule_request large{40, 1, 130, 0, 40, {}, 0.05};
  large.each.assign(40, {1, 1, 1});
  large.each.back() = {2, 2, 1};
  const auto found = find_best(large);
  CHECK(found.makespan < 1.1 * found.lower_bound);
}

TEST_CASE("the search reaches the lower bound where it can be reached", "[schedule]") {
  // F = I = W: ZB-V and ZB-H1 have no idle time except the skew.
  const auto two = find_best({4, 2, 8, 0, 4, {}, 0});
  CHECK(two.makespan == Approx(25.5));
  CHECK(two.lower_bound == Approx(25.5));
  const auto one = find_best({4, 1, 8, 0, 4, {}, 0});
  CHECK(one.makespan == Approx(27));
  CHECK(one.lower_bound == Approx(27));
  const auto alone = find_best({1, 0, 5, 0, 1, {1, 2, 3}, 0.5});
  CHECK(alone.makespan == Approx(30));
  CHECK(alone.what.chunks == 1);
}

TEST_CASE("less memory costs time; too little is refused", "[schedule][unsanitized]") {
  double slower = 1e9;
  for (const double limit : {1.0, 1.5, 2.0, 3.0, 4.0, 7.0}) {
    const auto found = find_best({4, 0, 12, 0, limit, {1, 1.2, 0.8}, 0.05});
    CHECK(found.makespan <= slower);
    slower = found.makespan;
  }
  CHECK_THROWS_WITH(find_best({4, 0, 12, 0, 0.9, {}, 0}), ContainsSubstring("give 1 or more"));
  CHECK_THROWS_WITH(find_best({0, 0, 12, 0, 0, {}, 0}), ContainsSubstring("at least 1 of each"));
  CHECK_THROWS_WITH(find_best({2, 0, 2, 0, 0, {-1, 1, 1}, 0}), ContainsSubstring("-1 is not"));
}

TEST_CASE("the search is deterministic", "[schedule][unsanitized]") {
  const schedule_request request{6, 0, 17, 0, 5, {1, 1.3, 0.6}, 0.2};
  CHECK(find_best(request).what == find_best(request).what);
}

TEST_CASE("SEARCH-1: greedy schedules keep the limit and end, with any policy", "[schedule]") {
  for (const bool in_v : {false, true})
    for (const int capacity : {2, 3, 7, 100})
      for (const double depth : {0.0, 0.3, 1.25})
        for (const double patience : {0.0, 1.0})
          for (const int debt : {0, 1, 3}) {
            search_problem of{3, 7, in_v ? placed_in_v(3) : placed_in_turn(3, 2), {}, capacity};
            of.costs.costs = {{0.5, 0.7, 0.2}};
            of.costs.transfer = 0.25;
            greedy_policy by;
            by.depth = depth;
            by.patience = patience;
            by.debt = debt;
            const auto found = run_greedy(of, by);
            const auto x = to_plan(of, found.rows);
            CHECK(validate(x).empty());
            const auto when = simulate(x, of.costs);
            CHECK(when.makespan == Approx(found.makespan));
            for (const auto& rank : when.ranks)
              CHECK(rank.peak_chunks <= capacity);
            CHECK(to_rows(of, x) == found.rows);
            const auto better = improve(of, found, 0, 200'000);
            CHECK(better.makespan <= found.makespan);
            CHECK(validate(to_plan(of, better.rows)).empty());
            CHECK(simulate(to_plan(of, better.rows), of.costs).makespan == Approx(better.makespan));
          }
}

#include "runtime/schedule/generators.hpp"

#include "runtime/core/error.hpp"
#include "runtime/schedule/automatic.hpp"
#include "runtime/schedule/generators/slot_grid.hpp"
#include "tests/runtime/schedule/generated.hpp"
#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <random>
#include <string>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::WithinAbs;

namespace {

// Sums of some thousand times near one: rounding is far below the differences between schedules.
constexpr double rounding = 1e-8;

/// p = 4, m = 8, F = I = W = 1: results of the reference generators.
struct known {
  std::string_view name;
  double makespan, idle, span_idle;
  std::vector<int> peaks;             ///< per rank, in chunks
  std::vector<double> ends;           ///< end of each rank's last action
  std::vector<double> with_transfer;  ///< makespans for .05, .1 and .2; empty: unknown
};

const std::vector<known>& reference() {
  static const std::vector<known> all = {
      {"gpipe", 33, 9, 9, {8, 8, 8, 8}, {33, 31, 29, 27}, {33.3, 33.6, 34.2}},
      {"1f1b", 33, 9, 9, {4, 3, 2, 1}, {33, 31, 29, 27}, {33.8, 34.6, 36.2}},
      {"interleaved", 28.5, 4.5, 4.5, {11, 9, 7, 5}, {28.5, 27.5, 26.5, 25.5}, {29.2, 29.9, 31.3}},
      {"looped-bfs", 28.5, 4.5, 4.5, {16, 16, 16, 16}, {28.5, 27.5, 26.5, 25.5}, {}},
      {"zb-h1", 27, 3, 3, {4, 4, 4, 4}, {27, 27, 27, 27}, {27.6, 28.2, 29.4}},
      {"izb", 25.5, 1.5, 1.5, {8, 8, 8, 8}, {25.5, 25.5, 25.5, 25.5}, {26.3, 27.1, 28.7}},
      {"zb-h2", 27, 3, 0, {7, 7, 7, 7}, {24, 25, 26, 27}, {}},
      {"zb-v", 25.5, 1.5, 0, {8, 8, 8, 8}, {24, 24.5, 25, 25.5}, {26.15, 26.8, 28.1}},
      {"v-half", 26.5, 2.5, 2.5, {6, 6, 6, 6}, {26.5, 26, 26.5, 26.5}, {}},
      {"v-min", 29.5, 5.5, 5.5, {4, 4, 4, 4}, {29.5, 29, 28.5, 28.5}, {}},
      {"dualpipe", 26, 2, 2, {5, 5, 5, 5}, {26, 26, 26, 26}, {26.45, 26.9, 27.8}},
      {"dualpipev", 27, 3, 3, {9, 9, 9, 9}, {27, 27, 27, 27}, {27.8, 28.7, 30.9}},
  };
  return all;
}

struct drawn_times {
  std::mt19937 random{1};
  double operator()(double low, double high) {
    return low + (high - low) * double(random()) / double(random.max());
  }
  int operator()(int low, int high) { return low + int(random() % unsigned(high - low + 1)); }
};

}  // namespace

TEST_CASE("with p 4, m 8 and equal times the figures equal the reference exactly", "[schedule]") {
  for (const auto& x : reference()) {
    CAPTURE(x.name);
    const auto plan = generated(x.name, 4, 8);
    const auto found = carried_out(plan);
    CHECK_THAT(found.makespan, WithinAbs(x.makespan, rounding));
    CHECK_THAT(longest_span_idle(found), WithinAbs(x.span_idle, rounding));
    for (std::size_t r = 0; r < 4; ++r) {
      CAPTURE(r);
      CHECK_THAT(found.idle(int(r)), WithinAbs(x.idle, rounding));
      CHECK(found.ranks[r].peak_chunks == x.peaks[r]);
      CHECK_THAT(found.ranks[r].last_end, WithinAbs(x.ends[r], rounding));
    }
    for (std::size_t i = 0; i < x.with_transfer.size(); ++i)
      CHECK_THAT(carried_out(plan, {}, 0.05 * double(1 << i)).makespan,
                 WithinAbs(x.with_transfer[i], rounding));
  }
}

TEST_CASE("every named schedule is sound for every supported size", "[schedule]") {
  int made = 0;
  for (const auto& x : named_schedules())
    for (const int p : {1, 2, 3, 4, 5, 8})
      for (const int m : {1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 21, 33})
        for (const int v : {0, 1, 2, 3, 4}) {
          // "auto" searches; its own test uses fewer sizes.
          if (x.name == "auto" || (v != 0 && !x.other_chunks))
            continue;
          CAPTURE(x.name, p, m, v);
          plan found;
          try {
            found = generated(x.name, p, m, v);
          } catch (const input_error&) {
            CHECK(x.copies + int(x.in_v) > 1);
            continue;
          }
          ++made;
          CHECK(found.name == x.name);
          CHECK(found.copies == x.copies);
          CHECK(is_sound(found));
          CHECK(adds_in_order(found) == (x.name != "looped-bfs" || m == 1));
          CHECK(carried_out(found).makespan >= 3.0 * m - rounding);
        }
  CHECK(made > 1000);
}

TEST_CASE("ZB-H1 and IZB idle for (p - 1) max(F, I, F + I - W) / v with any times", "[schedule]") {
  drawn_times draw;
  for (int i = 0; i < 600; ++i) {
    const int p = draw(2, 8), v = draw(1, 3), m = p * draw(2, 5);
    const action_costs by{draw(0.1, 2.0), draw(0.1, 2.0), draw(0.1, 2.0)};
    CAPTURE(p, v, m, by.forward, by.input_gradients, by.weight_gradients);
    const auto x = carried_out(v == 1 ? generated("zb-h1", p, m) : generated("izb", p, m, v), by);
    const double most = std::max(
        {by.forward, by.input_gradients, by.forward + by.input_gradients - by.weight_gradients});
    CHECK_THAT(longest_idle(x), WithinAbs((p - 1) * most / v, rounding));
    CHECK(most_chunks(x) == v * p);
  }
}

TEST_CASE("schedules with whole backwards idle for (p - 1) (F + B) / v", "[schedule]") {
  drawn_times draw;
  for (const int p : {2, 3, 4, 8})
    for (const int rounds : {2, 3, 5}) {
      const int m = p * rounds;
      const action_costs by{draw(0.1, 2.0), draw(0.1, 2.0), draw(0.1, 2.0)};
      CAPTURE(p, m, by.forward, by.input_gradients, by.weight_gradients);
      const double all = by.forward + by.input_gradients + by.weight_gradients;
      const auto idle = [&](std::string_view name, int v) {
        return longest_idle(carried_out(generated(name, p, m, v), by));
      };
      CHECK_THAT(idle("gpipe", 1), WithinAbs((p - 1) * all, rounding));
      CHECK_THAT(idle("1f1b", 1), WithinAbs((p - 1) * all, rounding));
      for (const int v : {2, 3, 4}) {
        CHECK_THAT(idle("interleaved", v), WithinAbs((p - 1) * all / v, rounding));
        CHECK_THAT(idle("looped-bfs", v), WithinAbs((p - 1) * all / v, rounding));
        for (int r = 0; r < p; ++r) {
          const auto x = carried_out(generated("interleaved", p, m, v));
          CHECK(x.ranks[std::size_t(r)].peak_chunks
                == std::min(v * m, (v - 1) * p + 2 * (p - 1 - r) + 1));
        }
      }
    }
}

TEST_CASE("ZB-H2 idles only as long as its limit of 2 p - 1 activations requires", "[schedule]") {
  drawn_times draw;
  for (int i = 0; i < 200; ++i) {
    const int p = draw(2, 10), m = draw(2 * p - 1, 5 * p);
    const action_costs by{draw(0.1, 2.0), draw(0.1, 2.0), draw(0.1, 2.0)};
    CAPTURE(p, m, by.forward, by.input_gradients, by.weight_gradients);
    const auto x = carried_out(generated("zb-h2", p, m), by);
    // F + I - 2 W is from the papers. I - F: the first I comes p F + (p - 1) I after the start, and
    // until then the limit allows 2 p - 1 forwards.
    const double each = std::max({0.0,
                                  by.forward + by.input_gradients - 2 * by.weight_gradients,
                                  by.input_gradients - by.forward});
    CHECK_THAT(longest_span_idle(x), WithinAbs((p - 1) * each, rounding));
    CHECK(most_chunks(x) == 2 * p - 1);
  }
}

TEST_CASE("ZB-H2 keeps any memory limit, at the cost of idle time", "[schedule]") {
  for (const int p : {1, 2, 4, 7})
    for (const int m : {1, 3, 8, 20}) {
      double before = 1e9;
      for (int limit = 1; limit <= 2 * p; ++limit) {
        CAPTURE(p, m, limit);
        schedule_request request;
        request.ranks = p;
        request.microbatches = m;
        request.memory_limit = limit + 0.5;
        const auto plan = generate("zb-h2", request);
        CHECK(is_sound(plan));
        const auto x = carried_out(plan);
        CHECK(most_chunks(x) <= limit);
        if (m >= 2 * p)
          CHECK(x.makespan <= before + rounding);
        before = x.makespan;
        if (limit == p && m >= p)
          CHECK(plan.ranks == generated("zb-h1", p, m).ranks);
      }
    }
}

TEST_CASE("ZB-V idles for the skew of half a forward per rank only, with F = I = W", "[schedule]") {
  for (const int p : {1, 2, 3, 4, 8, 13})
    for (const int m : {2 * p - 1, 2 * p, 3 * p + 1, 6 * p}) {
      CAPTURE(p, m);
      const auto x = carried_out(generated("zb-v", p, m));
      CHECK_THAT(longest_span_idle(x), WithinAbs(0, rounding));
      CHECK_THAT(longest_idle(x), WithinAbs((p - 1) / 2.0, rounding));
      CHECK(most_chunks(x) == 2 * p);
    }
}

TEST_CASE("DualPipe and DualPipeV idle as in their papers, with F = I = W", "[schedule]") {
  for (const int p : {2, 4, 6, 8, 16})
    for (const int m : {2 * p, 2 * p + 2, 4 * p, 6 * p + 2})
      for (const double pair : {3.0, 2.7, 2.25}) {
        CAPTURE(p, m, pair);
        const action_costs by{1, 1, 1, 0, pair};
        const auto dual = carried_out(generated("dualpipe", p, m), by);
        CHECK_THAT(longest_idle(dual), WithinAbs((p / 2 - 1) * (pair + 2 - 3), rounding));
        CHECK(most_chunks(dual) == p + 1);
        const auto folded = carried_out(generated("dualpipev", p, m), by);
        CHECK_THAT(longest_idle(folded), WithinAbs((p - 1) * (pair + 2 - 3) / 2, rounding));
        CHECK(most_chunks(folded) == 2 * p + 1);
      }
}

TEST_CASE("V-Half and V-Min idle as long and hold as much as the reference", "[schedule]") {
  struct known {
    int p;
    double idle_half, idle_min;  // for any m
    int peak_half, peak_min;     // in chunks
  };
  for (const auto& [p, idle_half, idle_min, peak_half, peak_min] : {known{1, 0, 0, 2, 2},
                                                                    {2, 0.5, 1.5, 4, 4},
                                                                    {3, 2.5, 2.5, 4, 4},
                                                                    {4, 2.5, 5.5, 6, 4},
                                                                    {5, 5.5, 7.5, 6, 6},
                                                                    {6, 5.5, 8.5, 8, 6},
                                                                    {8, 8.5, 13.5, 10, 8},
                                                                    {9, 11.5, 14.5, 10, 8},
                                                                    {12, 14.5, 20.5, 14, 10}})
    for (const int m : {2 * p, 3 * p, 5 * p + 1, 40}) {
      CAPTURE(p, m);
      const auto half = carried_out(generated("v-half", p, m));
      CHECK_THAT(longest_idle(half), WithinAbs(idle_half, rounding));
      CHECK(most_chunks(half) == peak_half);
      const auto min = carried_out(generated("v-min", p, m));
      CHECK_THAT(longest_idle(min), WithinAbs(idle_min, rounding));
      CHECK(most_chunks(min) == peak_min);
    }
}

TEST_CASE("V-Half and V-Min are generated for every number of ranks", "[schedule]") {
  for (int p = 1; p <= 40; ++p)
    for (const int m : {1, p, 2 * p + 1}) {
      CAPTURE(p, m);
      // The limits exceed a half and a third, because both chunks hold whole micro-batches.
      CHECK(most_chunks(carried_out(generated("v-half", p, m))) <= p + 3);
      CHECK(most_chunks(carried_out(generated("v-min", p, m))) <= 2 * p / 3 + 4);
    }
}

TEST_CASE("PATTERN-1, PATTERN-2: the actions of a pattern have distinct slots, in their order",
          "[schedule]") {
  CHECK_NOTHROW(schedules::slot_grid({{0, 1, 2, 3}}, 4, 2));
  CHECK_BREAKS("PATTERN-1", schedules::slot_grid({{0, 1, 1, 3}}, 4, 1));
  CHECK_BREAKS("PATTERN-1", schedules::slot_grid({{0, 1, 2, 4}}, 4, 2));
  CHECK_BREAKS("PATTERN-2", schedules::slot_grid({{1, 0, 2, 3}}, 4, 1));
}

TEST_CASE("groups of micro-batches follow Megatron's rule", "[schedule]") {
  schedule_request request;
  request.ranks = 4;
  request.chunks_per_rank = 2;
  for (const std::string_view name : {"interleaved", "izb"})
    for (request.microbatches = 1; request.microbatches < 24; ++request.microbatches)
      for (request.group = 1; request.group < 24; ++request.group) {
        CAPTURE(name, request.microbatches, request.group);
        const int rest = request.microbatches % request.group;
        const bool admitted = request.group >= std::min(4, request.microbatches)
                              && request.group <= request.microbatches && (rest == 0 || rest >= 4);
        if (admitted)
          CHECK(is_sound(generate(name, request)));
        else
          CHECK_THROWS_AS(generate(name, request), input_error);
      }
  request.group = 5;
  request.microbatches = 10;
  const auto x = generate("interleaved", request);
  CHECK(to_string(x.ranks[0][4]) == "0F4");
  CHECK(to_string(x.ranks[0][5]) == "4F0");
}

TEST_CASE("unsupported sizes are refused with the supported ones", "[schedule]") {
  const auto refused = [](std::string_view name, schedule_request request, const std::string& why) {
    CAPTURE(name);
    CHECK_THROWS_MATCHES(
        generate(name, request), input_error, MessageMatches(ContainsSubstring(why)));
  };
  refused("foo", {4, 0, 8}, "there are gpipe, 1f1b, interleaved");
  refused("1f1b", {0, 0, 8}, "give at least 1 of each");
  refused("1f1b", {4, 0, 0}, "give at least 1 of each");
  refused("1f1b", {4, 2, 8}, "1f1b has 1 chunk per rank, not 2");
  refused("izb", {4, -1, 8}, ", not -1");
  refused("1f1b", {4, 0, 8, 4}, "use interleaved or izb");
  refused("interleaved", {4, 2, 9, 4}, "give 8 or 12 micro-batches");
  refused("interleaved", {4, 2, 8, 3}, "give between 4 and 8");
  refused("izb", {4, 2, 8, 9}, "give between 4 and 8");
  refused(
      "1f1b", {4, 0, 8, 0, 3}, "holds 4 activations at its peak, on rank 0, but the limit is 3");
  refused("interleaved", {4, 2, 8, 0, 5}, "holds 5.5 activations");
  refused("dualpipe", {4, 0, 8, 0, 4}, "holds 5 activations");
  refused("zb-h2", {4, 0, 8, 0, 0.5}, "give 1 or more");
  refused("zb-h2", {4, 0, 8, 0, -1}, "at least 0; -1 is not");
  refused("dualpipe", {5, 0, 20}, "5 is odd: give 4 or 6");
  refused("dualpipe", {1, 0, 20}, "1 is odd: give 2");
  refused("dualpipe", {4, 0, 9}, "9 is odd: give 8 or 10");
  refused("dualpipe", {4, 0, 5}, "at least 8; 5 is fewer: give 8");
  refused("dualpipev", {4, 0, 7}, "at least 8 micro-batches; 7 is fewer: give 8");
  refused("zb-v", {4, 1, 7}, "zb-v has 2 chunks per rank, not 1");
  refused("gpipe", {1 << 20, 0, 1 << 20}, "give fewer");
  refused("gpipe", {2147483647, 0, 2147483647}, "give fewer");
  refused("auto", {2147483647, 0, 2147483647}, "give fewer");
  CHECK_THROWS_MATCHES(find_best({1 << 20, 2, 1 << 20}),
                       input_error,
                       MessageMatches(ContainsSubstring("give fewer")));
  refused("izb", {2147483647, 2147483647, 2147483647}, "give fewer");
}

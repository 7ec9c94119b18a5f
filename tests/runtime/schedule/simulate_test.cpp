#include "runtime/schedule/simulate.hpp"

#include "runtime/core/error.hpp"
#include "runtime/schedule/plan.hpp"
#include "tests/runtime/schedule/generated.hpp"
#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::WithinAbs;

namespace {

// Sums of some hundred times near one: rounding is far below the differences between schedules.
constexpr double rounding = 1e-9;

constexpr auto F = action_kind::forward, B = action_kind::backward,
               I = action_kind::input_gradients, W = action_kind::weight_gradients,
               R = action_kind::recompute;

action of(action_kind kind, int chunk, int m, int block = 0) {
  return {kind, chunk_id(chunk), microbatch_id(m), std::uint16_t(block)};
}

action paired(action x) {
  x.with_next = true;
  return x;
}

plan gpipe(int ranks, int microbatches) {
  plan out{"gpipe", ranks, microbatches, true, placed_in_turn(ranks, 1), {}};
  for (int r = 0; r < ranks; ++r) {
    auto& row = out.ranks.emplace_back();
    for (const auto kind : {F, B})
      for (int m = 0; m < microbatches; ++m)
        row.push_back(of(kind, r, m));
  }
  return out;
}

cost_model even(double f, double i, double w, double transfer = 0) {
  auto out = shared_costs({f, i, w}, 1);
  out.transfer = transfer;
  return out;
}

std::vector<double> last_ends(const timeline& x) {
  std::vector<double> out;
  for (const auto& r : x.ranks)
    out.push_back(r.last_end);
  return out;
}

std::vector<int> peaks(const timeline& x) {
  std::vector<int> out;
  for (const auto& r : x.ranks)
    out.push_back(r.peak_chunks);
  return out;
}

}  // namespace

TEST_CASE("time and memory of 1F1B and GPipe equal those of the published table",
          "[schedule][simulate]") {
  for (const auto& x : {one_forward_one_backward(4, 8), gpipe(4, 8)}) {
    const auto seen = simulate(x, even(1, 1, 1));
    CHECK(seen.makespan == 33);
    CHECK(last_ends(seen) == std::vector<double>{33, 31, 29, 27});
    for (int r = 0; r < 4; ++r) {
      CHECK(seen.idle(r) == 9);
      CHECK(seen.ranks[std::size_t(r)].span_idle() == 9 - 3 * r);
      CHECK(seen.ranks[std::size_t(r)].busy == 24);
    }
    CHECK_THAT(seen.bubble(), WithinAbs(9.0 / 33, rounding));
  }
  CHECK(peaks(simulate(one_forward_one_backward(4, 8), even(1, 1, 1)))
        == std::vector<int>{4, 3, 2, 1});
  CHECK(peaks(simulate(gpipe(4, 8), even(1, 1, 1))) == std::vector<int>{8, 8, 8, 8});
}

TEST_CASE("transfers delay the actions that wait for them", "[schedule][simulate]") {
  const double costs[] = {0, .05, .1, .2}, one_in_turn[] = {33, 33.8, 34.6, 36.2},
               all_first[] = {33, 33.3, 33.6, 34.2};
  for (int i = 0; i < 4; ++i) {
    CHECK_THAT(simulate(one_forward_one_backward(4, 8), even(1, 1, 1, costs[i])).makespan,
               WithinAbs(one_in_turn[i], rounding));
    CHECK_THAT(simulate(gpipe(4, 8), even(1, 1, 1, costs[i])).makespan,
               WithinAbs(all_first[i], rounding));
  }
}

TEST_CASE("1F1B idles for p - 1 times F and B, with any durations", "[schedule][simulate]") {
  for (const int p : {1, 2, 3, 8})
    for (const int m : {8, 17})
      for (const auto& [f, i, w] : {std::tuple{1., 1., 1.}, {2., .5, 3.}, {.25, 4., 1.}}) {
        const auto seen = simulate(one_forward_one_backward(p, m), even(f, i, w));
        CHECK_THAT(seen.makespan, WithinAbs((m + p - 1) * (f + i + w), rounding));
        CHECK_THAT(seen.idle(p - 1), WithinAbs((p - 1) * (f + i + w), rounding));
      }
}

TEST_CASE("a queue sends one result after the other", "[schedule][simulate]") {
  // Rank 0 computes three activations in a row, each of which takes 2 to send.
  plan x{"sends", 2, 3, false, {0, 1}, {{}, {}}};
  for (int r = 0; r < 2; ++r)
    for (int m = 0; m < 3; ++m)
      x.ranks[std::size_t(r)].push_back(of(F, r, m));
  auto by = even(1, 1, 1, 2);
  CHECK(simulate(x, by).makespan == 3 + 2 + 1);
  by.queues = 1;
  CHECK(simulate(x, by).makespan == 1 + 3 * 2 + 1);
}

TEST_CASE("with two queues, gradients do not wait for activations", "[schedule][simulate]") {
  // Rank 1 sends an activation up and a gradient down at 3, when its pair ends.
  plan x{"both", 3, 2, true, {0, 1, 2}, {{}, {}, {}}};
  x.ranks[0] = {of(F, 0, 0), of(F, 0, 1), of(B, 0, 0), of(B, 0, 1)};
  x.ranks[1] = {of(F, 1, 0), paired(of(F, 1, 1)), of(B, 1, 0), of(B, 1, 1)};
  x.ranks[2] = {of(F, 2, 0), of(B, 2, 0), of(F, 2, 1), of(B, 2, 1)};
  auto by = even(1, 1, 1, 1);
  const auto begin_of_gradient = [&](int queues) {
    by.queues = queues;
    return simulate(x, by).ranks[0].actions[2].begin;
  };
  // 0F0 1, 1F0 3, 2F0 5, 2B0 7, so the pair is from 8 to 11.
  CHECK(begin_of_gradient(0) == 12);
  CHECK(begin_of_gradient(1) == 13);
  CHECK(begin_of_gradient(2) == 12);
}

TEST_CASE("neighbouring chunks on one rank have no transfer", "[schedule][simulate]") {
  plan x{"v", 4, 1, true, placed_in_v(2), {{}, {}}};
  x.ranks[0] = {of(F, 0, 0), of(F, 3, 0), of(B, 3, 0), of(B, 0, 0)};
  x.ranks[1] = {of(F, 1, 0), of(F, 2, 0), of(B, 2, 0), of(B, 1, 0)};
  CHECK(simulate(x, even(1, 1, 1, 10)).makespan == 4 * 3 + 4 * 10);
}

TEST_CASE("a pair begins when both inputs are available, and both actions end together",
          "[schedule][simulate]") {
  plan x{"pair", 2, 2, true, {0, 1}, {{}, {}}};
  x.ranks[0] = {of(F, 0, 0), of(F, 0, 1), of(B, 0, 0), of(B, 0, 1)};
  x.ranks[1] = {of(F, 1, 0), paired(of(F, 1, 1)), of(B, 1, 0), of(B, 1, 1)};
  auto by = even(1, 1, 1);
  by.costs[0].overlapped = 2.25;
  const auto seen = simulate(x, by).ranks[1];
  CHECK(seen.actions[1].begin == 2);
  CHECK(seen.actions[2].begin == 2);
  CHECK(seen.actions[1].end == 4.25);
  CHECK(seen.actions[2].end == 4.25);
  CHECK(seen.busy == 1 + 2.25 + 2);
  CHECK(seen.peak_chunks == 2);  // the F begins before the B ends
  by.costs[0].overlapped = 0;
  CHECK(simulate(x, by).ranks[1].actions[1].end == 5);
}

TEST_CASE("a pair of different chunks takes the mean of both durations", "[schedule][simulate]") {
  plan x{"pair", 2, 2, true, {0, 0}, {{}}};
  x.ranks[0] = {of(F, 0, 0),
                of(F, 1, 0),
                paired(of(F, 0, 1)),
                of(B, 1, 0),
                of(B, 0, 0),
                of(F, 1, 1),
                of(B, 1, 1),
                of(B, 0, 1)};
  auto by = even(1, 1, 1);
  by.costs = {{1, 1, 1, 0, 2}, {2, 2, 2, 0, 4}};
  CHECK(simulate(x, by).makespan == 1 + 2 + 3 + 2 + 2 + 4 + 2);
}

TEST_CASE("memory is held until I, then until W, as a series", "[schedule][simulate]") {
  plan x{"one", 1, 2, true, {0}, {{}}};
  x.ranks[0] = {of(F, 0, 0), of(I, 0, 0), of(F, 0, 1), of(I, 0, 1), of(W, 0, 0), of(W, 0, 1)};
  auto by = even(1, 2, 4);
  by.held = {{10, 3}};
  const auto seen = simulate(x, by).ranks[0];
  CHECK(seen.memory
        == std::vector<std::pair<double, double>>{{0, 10}, {3, 13}, {6, 6}, {10, 3}, {14, 0}});
  CHECK(seen.peak_memory == 13);
  CHECK(seen.peak_chunks == 2);
}

TEST_CASE("the blocks of a chunk share its costs and memory", "[schedule][simulate]") {
  plan x{"blocks", 1, 1, true, {0}, {{}}};
  x.blocks = {{0, 1, 1, 0}};
  x.ranks[0] = {of(F, 0, 0)};
  for (const int b : {3, 2, 1, 0}) {
    if (x.blocks[0][std::size_t(b)])
      x.ranks[0].push_back(of(R, 0, 0, b));
    x.ranks[0].push_back(of(I, 0, 0, b));
  }
  for (const int b : {3, 2, 1, 0})
    x.ranks[0].push_back(of(W, 0, 0, b));
  auto by = even(1, 4, 8);
  by.costs[0].recompute = 1;
  by.held = {{8, 4}};
  const auto seen = simulate(x, by);
  CHECK(seen.makespan == 1 + 4 + 8 + 1);
  CHECK(seen.ranks[0].actions[2].what == of(R, 0, 0, 2));
  CHECK(seen.ranks[0].actions[2].end - seen.ranks[0].actions[2].begin == .5);
  std::vector<double> held;
  for (const auto& [time, memory] : seen.ranks[0].memory)
    held.push_back(memory);
  CHECK(held == std::vector<double>{8, 7, 6, 5, 4, 3, 2, 1, 0});
  CHECK(seen.ranks[0].peak_chunks == 1);
}

TEST_CASE("explicit sends take no time, and a receive waits for its send", "[schedule][simulate]") {
  constexpr auto SF = action_kind::send_activation, RF = action_kind::receive_activation,
                 SB = action_kind::send_gradient, RB = action_kind::receive_gradient;
  plan x{"explicit", 2, 1, true, {0, 1}, {{}, {}}};
  x.ranks[0] = {of(F, 0, 0), of(SF, 0, 0), of(RB, 0, 0), of(I, 0, 0), of(W, 0, 0)};
  x.ranks[1] = {of(RF, 1, 0), of(F, 1, 0), of(I, 1, 0), of(SB, 1, 0), of(W, 1, 0)};
  const auto seen = simulate(x, even(1, 1, 1, .5));
  CHECK(seen.makespan == 1 + .5 + 2 + .5 + 2);
  CHECK(seen.ranks[1].first_begin == 1.5);
  CHECK(seen.ranks[1].busy == 3);
  CHECK(seen.ranks[0].actions[2].end == 4);
  // Moved after W, the gradient is sent later by the duration of W.
  std::swap(x.ranks[1][3], x.ranks[1][4]);
  CHECK(simulate(x, even(1, 1, 1, .5)).makespan == 7);
}

TEST_CASE("overhead precedes each action and counts as idle time", "[schedule][simulate]") {
  auto by = even(1, 1, 1);
  by.overhead = .25;
  const auto seen = simulate(one_forward_one_backward(1, 2), by);
  CHECK(seen.makespan == 6 + 4 * .25);
  CHECK(seen.ranks[0].busy == 6);
}

TEST_CASE("a forward-only plan holds no activations", "[schedule][simulate]") {
  const auto seen = simulate(forward_only(3, 5), even(1, 1, 1));
  CHECK(seen.makespan == 7);
  CHECK(peaks(seen) == std::vector<int>{0, 0, 0});
}

TEST_CASE("a plan that deadlocks or lacks an action is not simulated", "[schedule][simulate]") {
  auto x = one_forward_one_backward(2, 2);
  std::swap(x.ranks[1][0], x.ranks[1][1]);
  CHECK_BREAKS("SIMULATE-3", simulate(x, {}));
  x = one_forward_one_backward(2, 2);
  x.ranks[0].erase(x.ranks[0].begin());
  CHECK_BREAKS("SIMULATE-3", simulate(x, {}));
  x = one_forward_one_backward(2, 2);
  x.placement.pop_back();
  CHECK_BREAKS("SIMULATE-1", simulate(x, {}));
  x = one_forward_one_backward(2, 2);
  x.ranks[0][0].chunk = chunk_id(2);
  CHECK_BREAKS("SIMULATE-1", simulate(x, {}));
  CHECK_BREAKS("SIMULATE-2",
               simulate(one_forward_one_backward(3, 2), {.costs = {{}, {}}, .held = {{}}}));
}

namespace {

/// Start times of all actions, computed by delaying actions that start too early. The code
/// is independent of the simulator.
class slow_clock {
 public:
  slow_clock(const plan& x, const cost_model& by) : plan_(x), by_(by) {
    for (const auto& row : x.ranks)
      begins.emplace_back(row.size(), 0.0);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t r = 0; r < begins.size(); ++r)
        for (std::size_t i = 0; i < begins[r].size(); ++i)
          if (const double at = earliest(r, i); at > begins[r][i] + rounding) {
            begins[r][i] = at;
            changed = true;
          }
    }
  }

  std::vector<std::vector<double>> begins;

 private:
  struct unit {
    std::size_t first = 0, count = 1;
  };
  unit unit_of(std::size_t r, std::size_t i) const {
    const auto& row = plan_.ranks[r];
    if (i > 0 && row[i - 1].with_next)
      return {i - 1, 2};
    return {i, row[i].with_next ? 2U : 1U};
  }
  double cost(const action& x) const {
    const auto& of = by_.cost_of(x.chunk);
    return x.kind == F   ? of.forward
           : x.kind == B ? of.input_gradients + of.weight_gradients
           : x.kind == I ? of.input_gradients
           : x.kind == W ? of.weight_gradients
                         : 0;
  }
  double end(std::size_t r, std::size_t i) const {
    const auto [first, count] = unit_of(r, i);
    const auto* row = &plan_.ranks[r][first];
    const double x = by_.cost_of(row[0].chunk).overlapped,
                 y = count == 2 ? by_.cost_of(row[1].chunk).overlapped : 0;
    const double both = count == 1 ? cost(row[0])
                        : y > 0    ? (x + y) / 2
                                   : cost(row[0]) + cost(row[1]);
    return begins[r][first] + both;
  }
  std::pair<std::size_t, std::size_t> find(const action& like, action_kind a, action_kind b) const {
    for (std::size_t r = 0; r < plan_.ranks.size(); ++r)
      for (std::size_t i = 0; i < plan_.ranks[r].size(); ++i) {
        const auto& x = plan_.ranks[r][i];
        if ((x.kind == a || x.kind == b) && x.chunk == like.chunk && x.copy == like.copy
            && x.microbatch == like.microbatch)
          return {r, i};
      }
    FAIL("an action is missing");
    return {};
  }
  bool leaves(const action& x) const {
    const int c = int(value(x.chunk)), to = x.kind == F ? c + 1 : c - 1;
    return (x.kind == F || x.kind == B || x.kind == I) && to >= 0 && to < plan_.chunks
           && plan_.rank_of(x.chunk, x.copy) != plan_.rank_of(chunk_id(to), x.copy);
  }
  /// The arrival time, after all earlier sends of the rank in the same queue.
  double arrival(std::size_t r, std::size_t i) const {
    const auto& what = plan_.ranks[r][i];
    if (by_.queues == 0)
      return end(r, i) + by_.transfer;
    double free = 0;
    for (std::size_t j = 0; j <= i; ++j) {
      const auto& x = plan_.ranks[r][j];
      if (leaves(x) && (by_.queues == 1 || (x.kind == F) == (what.kind == F)))
        free = std::max(free, end(r, j)) + by_.transfer;
    }
    return free;
  }
  double ready(std::size_t r, action x) const {
    const int c = int(value(x.chunk));
    const bool starts
        = (x.kind == F && c == 0) || (x.kind != F && x.kind != W && c + 1 == plan_.chunks);
    double out = 0;
    if (x.kind == W)
      return end_of(find(x, I, I));
    if (x.kind != F)
      out = end_of(find(x, F, F));
    if (starts)
      return out;
    const bool forward = x.kind == F;
    x.chunk = chunk_id(forward ? c - 1 : c + 1);
    const auto from = forward ? find(x, F, F) : find(x, B, I);
    return std::max(out, from.first == r ? end_of(from) : arrival(from.first, from.second));
  }
  double end_of(std::pair<std::size_t, std::size_t> at) const { return end(at.first, at.second); }
  double earliest(std::size_t r, std::size_t i) const {
    const auto [first, count] = unit_of(r, i);
    double out = first == 0 ? 0 : end(r, first - 1);
    for (auto j = first; j < first + count; ++j)
      out = std::max(out, ready(r, plan_.ranks[r][j]));
    return out;
  }

  const plan& plan_;
  const cost_model& by_;
};

}  // namespace

TEST_CASE("a slow independent clock gives every action the simulator's start time",
          "[schedule][simulate]") {
  std::mt19937 random(7);
  const auto draw = [&](double most) { return most * double(random()) / double(random.max()); };
  for (const auto& one : named_schedules()) {
    if (one.name == "auto")
      continue;  // equals or resembles one of these
    const auto x = troupe::tests::generated(one.name, 4, 8);
    for (const int queues : {0, 1, 2}) {
      CAPTURE(one.name, queues);
      cost_model by;
      by.costs.clear();
      for (int c = 0; c < x.chunks; ++c)
        by.costs.push_back({draw(2), draw(2), draw(2), 0, draw(5)});
      by.transfer = draw(1);
      by.queues = queues;
      const auto seen = simulate(x, by);
      const slow_clock known(x, by);
      for (std::size_t r = 0; r < 4; ++r)
        for (std::size_t i = 0; i < known.begins[r].size(); ++i)
          CHECK_THAT(seen.ranks[r].actions[i].begin, WithinAbs(known.begins[r][i], 100 * rounding));
    }
  }
}

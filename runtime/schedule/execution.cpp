#include "runtime/schedule/execution.hpp"

#include "runtime/core/error.hpp"
#include "runtime/schedule/plan_graph.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <utility>

namespace troupe::runtime {
namespace {

using rows = std::vector<std::vector<timed_action>>;

plan plan_of(const plan& frame, const rows& executed) {
  plan out = frame;
  for (std::size_t r = 0; r < executed.size(); ++r) {
    out.ranks[r].clear();
    for (const auto& x : executed[r]) {
      out.ranks[r].push_back(x.what);
      out.ranks[r].back().with_next = false;  // a lane runs one action after the other
    }
  }
  return out;
}

std::vector<action_costs> mean_costs(const plan& frame, const rows& executed) {
  std::vector<action_costs> out(std::size_t(frame.chunks), action_costs{0, 0, 0, 0, 0});
  for (const auto& row : executed)
    for (const auto& x : row) {
      auto& to = out[value(x.what.chunk)];
      const double share = (x.end - x.begin) / frame.microbatches;
      switch (x.what.kind) {
        case action_kind::forward:
          to.forward += share;
          break;
        case action_kind::input_gradients:
          to.input_gradients += share;
          break;
        case action_kind::weight_gradients:
          to.weight_gradients += share;
          break;
        default:
          to.recompute += share;
      }
    }
  return out;
}

double median(std::vector<double>& x) {
  if (x.empty())
    return 0;
  const auto middle = x.begin() + std::ptrdiff_t(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  return std::max(0.0, *middle);
}

/// `between`: the gap between two actions of a rank if the inputs were already there. `hand_off`:
/// from the end of an action to the start of an action on another rank that waited for it.
struct gaps {
  double between = 0, hand_off = 0;
};

/// Offsets between clocks, from the hand-offs between their ranks.
class clock_comparison {
 public:
  /// `clock_of`: the clock of each rank, from 0.
  clock_comparison(const plan_graph& graph,
                   const rows& executed,
                   const std::vector<std::size_t>& clock_of)
      : clocks_(*std::ranges::max_element(clock_of) + 1),
        shortest_(clocks_ * clocks_, std::numeric_limits<double>::infinity()) {
    for (std::size_t r = 0; r < executed.size(); ++r)
      for (std::size_t i = 0; i < executed[r].size(); ++i)
        for (const auto& need : graph.needs_of(graph.row_begin(r) + plan_graph::node(i), r))
          if (need.arrives) {
            const auto from = graph.rank_of(need.of);
            const auto end = executed[from][need.of - graph.row_begin(from)].end;
            auto& x = shortest_[clock_of[from] * clocks_ + clock_of[r]];
            x = std::min(x, executed[r][i].begin - end);
          }
  }

  /// How far each clock is ahead of the first one that it can be compared with.
  std::vector<double> offsets() const {
    std::vector<std::optional<double>> ahead(clocks_);
    for (std::size_t root = 0; root < clocks_; ++root) {
      if (ahead[root])
        continue;
      ahead[root] = 0;
      for (std::vector<std::size_t> reached{root}; !reached.empty();) {
        const auto one = reached.back();
        reached.pop_back();
        for (std::size_t other = 0; other < clocks_; ++other) {
          const auto forth = between(one, other), back = between(other, one);
          if (ahead[other] || std::isinf(forth) || std::isinf(back))
            continue;
          ahead[other] = *ahead[one] + (forth - back) / 2;
          reached.push_back(other);
        }
      }
    }
    std::vector<double> out;
    for (const auto& x : ahead)
      out.push_back(*x);
    return out;
  }

 private:
  /// Shortest hand-off: from the end of an action by clock `from` to the begin of an action that
  /// needs it, by clock `to`.
  double between(std::size_t from, std::size_t to) const { return shortest_[from * clocks_ + to]; }

  std::size_t clocks_;
  std::vector<double> shortest_;
};

void set_to_one_clock(const plan_graph& graph,
                      rows& executed,
                      const std::vector<std::uint64_t>& clocks) {
  const std::set<std::uint64_t> all(clocks.begin(), clocks.end());
  if (all.size() < 2)
    return;
  std::vector<std::size_t> clock_of;
  for (const auto x : clocks)
    clock_of.push_back(std::size_t(std::distance(all.begin(), all.find(x))));
  const auto ahead = clock_comparison(graph, executed, clock_of).offsets();
  for (std::size_t r = 0; r < executed.size(); ++r)
    for (auto& x : executed[r]) {
      x.begin -= ahead[clock_of[r]];
      x.end -= ahead[clock_of[r]];
    }
}

gaps usual_gaps(const plan_graph& graph, const rows& executed) {
  std::vector<double> between, hand_off;
  for (std::size_t r = 0; r < executed.size(); ++r)
    for (std::size_t i = 0; i < executed[r].size(); ++i) {
      const double before
          = i == 0 ? -std::numeric_limits<double>::infinity() : executed[r][i - 1].end;
      double arrived = -std::numeric_limits<double>::infinity();
      for (const auto& need : graph.needs_of(graph.row_begin(r) + plan_graph::node(i), r))
        if (need.arrives) {
          const auto from = graph.rank_of(need.of);
          arrived = std::max(arrived, executed[from][need.of - graph.row_begin(from)].end);
        }
      const double begin = executed[r][i].begin;
      if (arrived > before)
        hand_off.push_back(begin - arrived);
      else if (i > 0)
        between.push_back(begin - before);
    }
  gaps out{median(between), median(hand_off)};
  out.hand_off = std::max(0.0, out.hand_off - out.between);
  return out;
}

}  // namespace

execution compare(const plan& frame, rows executed, const std::vector<std::uint64_t>& clocks) {
  ensure(
      executed.size() == frame.ranks.size() && (clocks.empty() || clocks.size() == executed.size()),
      "EXECUTION-1: each rank reports its actions");
  const auto done = plan_of(frame, executed);
  const plan_graph graph(done);
  set_to_one_clock(graph, executed, clocks);
  execution out;
  double first = std::numeric_limits<double>::infinity(), last = -first, busy = 0;
  for (const auto& row : executed)
    for (const auto& x : row) {
      first = std::min(first, x.begin);
      last = std::max(last, x.end);
      busy += x.end - x.begin;
    }
  if (last < first)
    return out;
  const auto usual = usual_gaps(graph, executed);
  out.measured.costs = mean_costs(frame, executed);
  out.measured.overhead = usual.between;
  out.measured.transfer = usual.hand_off;
  out.planned = simulate(done, out.measured);
  out.makespan = last - first;
  out.planned_makespan = out.planned.makespan;
  const auto idle_share = [&](double makespan) {
    return makespan > 0 ? 1 - busy / (makespan * double(executed.size())) : 0;
  };
  out.bubble = idle_share(out.makespan);
  out.planned_bubble = idle_share(out.planned_makespan);
  double late = 0;
  std::size_t count = 0;
  for (std::size_t r = 0; r < executed.size(); ++r)
    for (std::size_t i = 0; i < executed[r].size(); ++i, ++count) {
      const double by
          = std::max(0.0, executed[r][i].begin - first - out.planned.ranks[r].actions[i].begin);
      late += by;
      out.worst_lateness = std::max(out.worst_lateness, by);
    }
  out.lateness = late / double(count);
  out.executed = std::move(executed);
  return out;
}

}  // namespace troupe::runtime

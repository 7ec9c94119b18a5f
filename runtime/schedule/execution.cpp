#include "runtime/schedule/execution.hpp"

#include "runtime/core/error.hpp"
#include "runtime/schedule/plan_graph.hpp"

#include <algorithm>
#include <limits>

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

gaps usual_gaps(const plan& of, const rows& executed) {
  const plan_graph graph(of);
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

execution compare(const plan& frame, const rows& executed) {
  ensure(executed.size() == frame.ranks.size(), "EXECUTION-1: each rank reports its actions");
  const auto done = plan_of(frame, executed);
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
  const auto usual = usual_gaps(done, executed);
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
  return out;
}

}  // namespace troupe::runtime

#include "runtime/schedule/simulate.hpp"

#include "runtime/core/error.hpp"
#include "runtime/schedule/plan_graph.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

/// The memory that a rank holds over time.
class ledger {
 public:
  ledger(const plan_graph& graph, const cost_model& by, rank_timeline& out)
      : graph_(graph), by_(by), out_(out) {}

  void begin(const action& x, double time) {
    if (x.kind != action_kind::forward || !graph_.of().training)
      return;
    ++chunks_;
    out_.peak_chunks = std::max(out_.peak_chunks, chunks_);
    change(time, by_.held_by(x.chunk).before_input_gradients);
  }

  /// `unfinished`: by slot, the number of blocks of a chunk and micro-batch whose W is done.
  void end(const action& x, double time, std::vector<std::uint16_t>& unfinished) {
    const bool inputs = x.kind == action_kind::backward || x.kind == action_kind::input_gradients;
    const bool weights = x.kind == action_kind::backward || x.kind == action_kind::weight_gradients;
    if (!inputs && !weights)
      return;
    const auto& held = by_.held_by(x.chunk);
    const auto blocks = graph_.blocks_of(value(x.chunk));
    if (weights) {
      auto whole = x;
      whole.block = 0;
      auto& done = unfinished[graph_.slot(whole)];
      if (++done == blocks)
        --chunks_;
    }
    change(time,
           ((inputs ? -held.before_input_gradients : 0)
            + (inputs != weights ? (inputs ? 1 : -1) * held.before_weight_gradients : 0))
               / blocks);
  }

 private:
  void change(double time, double by) {
    now_ = chunks_ == 0 ? 0 : now_ + by;  // avoids accumulated rounding errors
    out_.peak_memory = std::max(out_.peak_memory, now_);
    if (!out_.memory.empty() && out_.memory.back().first == time)
      out_.memory.back().second = now_;
    else
      out_.memory.emplace_back(time, now_);
  }

  const plan_graph& graph_;
  const cost_model& by_;
  rank_timeline& out_;
  double now_ = 0;
  int chunks_ = 0;
};

/// Durations of the actions of each chunk, for its number of blocks.
class durations {
 public:
  durations(const plan_graph& graph, const cost_model& by) : by_(by) {
    for (int c = 0; c < graph.of().chunks; ++c) {
      const auto chunk = std::uint32_t(c);
      int rebuilt = 0;
      for (int b = 0; b < graph.blocks_of(chunk); ++b)
        rebuilt += graph.is_rebuilt(chunk, b) ? 1 : 0;
      auto x = by.cost_of(chunk_id(chunk));
      x.input_gradients /= graph.blocks_of(chunk);
      x.weight_gradients /= graph.blocks_of(chunk);
      x.recompute /= std::max(1, rebuilt);
      of_block_.push_back(x);
    }
  }

  double operator()(const action& x) const {
    const auto& of = of_block_[value(x.chunk)];
    switch (x.kind) {
      case action_kind::forward:
        return of.forward;
      case action_kind::backward:
        return of.input_gradients + of.weight_gradients;
      case action_kind::input_gradients:
        return of.input_gradients;
      case action_kind::weight_gradients:
        return of.weight_gradients;
      case action_kind::recompute:
        return of.recompute;
      default:
        return 0;
    }
  }

  double of_pair(const action& a, const action& b) const {
    const bool one_forward = (a.kind == action_kind::forward) != (b.kind == action_kind::forward);
    const bool one_backward
        = (a.kind == action_kind::backward) != (b.kind == action_kind::backward);
    const double x = by_.cost_of(a.chunk).overlapped, y = by_.cost_of(b.chunk).overlapped;
    // The overlapped time is the mean of the two chunks.
    return one_forward && one_backward && x > 0 && y > 0 ? (x + y) / 2 : (*this)(a) + (*this)(b);
  }

 private:
  const cost_model& by_;
  std::vector<action_costs> of_block_;
};

/// The send queues of one rank.
struct outbox {
  double free[2] = {0, 0};

  double arrival(const action& x, double time, const cost_model& by) {
    if (by.queues == 0)
      return time + by.transfer;
    const bool gradients = x.kind != action_kind::forward && x.kind != action_kind::send_activation;
    auto& queue = free[by.queues == 2 && gradients ? 1 : 0];
    queue = std::max(queue, time) + by.transfer;
    return queue;
  }
};

}  // namespace

cost_model shared_costs(const action_costs& of_a_rank, double chunks_per_rank) {
  const double v = chunks_per_rank;
  const auto& x = of_a_rank;
  cost_model out;
  out.costs = {{x.forward / v,
                x.input_gradients / v,
                x.weight_gradients / v,
                x.recompute / v,
                x.overlapped / v}};
  out.held = {{1 / v, 1 / v}};
  return out;
}

double timeline::bubble() const {
  double idle_of_all = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    idle_of_all += idle(int(r));
  return makespan > 0 ? idle_of_all / (double(ranks.size()) * makespan) : 0;
}

timeline simulate(const plan& x, const cost_model& by) {
  ensure(misfit(x).empty(), "SIMULATE-1: only a checked plan is simulated: its sizes fit");
  const auto fits = [&](std::size_t n) { return n == 1 || n == std::size_t(x.chunks); };
  ensure(fits(by.costs.size()) && fits(by.held.size()),
         "SIMULATE-2: costs and held memory are given per chunk, or once for all");
  const plan_graph graph(x);
  const durations takes(graph, by);
  timeline out;
  out.ranks.resize(x.ranks.size());
  std::vector<ledger> held;
  held.reserve(x.ranks.size());
  for (std::size_t r = 0; r < x.ranks.size(); ++r) {
    out.ranks[r].actions.reserve(x.ranks[r].size());
    out.ranks[r].memory.reserve(x.ranks[r].size() + 1);
    held.emplace_back(graph, by, out.ranks[r]);
  }
  std::vector<outbox> sends(x.ranks.size());
  std::vector<double> ends(graph.size()), arrivals(graph.size()), free(x.ranks.size());
  std::vector<char> worked(x.ranks.size());
  std::vector<std::uint16_t> finished(graph.slots());

  const auto left = carry_out(
      graph, [&](plan_graph::node n, plan_graph::node count, std::size_t r) {
        auto& rank = out.ranks[r];
        double begin = free[r];
        for (auto i = n; i < n + count; ++i)
          for (const auto& need : graph.needs_of(i, r))
            begin = std::max(begin, need.arrives ? arrivals[need.of] : ends[need.of]);
        const auto& first = graph.at(n, r);
        ensure(
            graph.is_within(first) && graph.is_within(graph.at(n + count - 1, r)),
            "SIMULATE-1: only a plan that was checked is simulated: its actions are of its chunks");
        const double time = count == 2 ? takes.of_pair(first, graph.at(n + 1, r)) : takes(first);
        if (is_work(first.kind)) {
          begin += by.overhead;
          if (!worked[r])
            rank.first_begin = begin;
          worked[r] = 1;
          rank.busy += time;
          rank.last_end = begin + time;
        }
        const double end = free[r] = begin + time;
        for (auto i = n; i < n + count; ++i) {
          const auto& a = graph.at(i, r);
          rank.actions.push_back({a, begin, end});
          held[r].begin(a, begin);
        }
        for (auto i = n; i < n + count; ++i) {
          const auto& a = graph.at(i, r);
          held[r].end(a, end, finished);
          ends[i] = end;
          if (graph.is_sent(a))
            arrivals[i] = sends[r].arrival(a, end, by);
        }
      });
  for (std::size_t r = 0; r < x.ranks.size(); ++r) {
    ensure(left[r] == graph.row_end(r), "SIMULATE-3: only a plan without deadlock is simulated");
    out.makespan = std::max(out.makespan, out.ranks[r].last_end);
  }
  return out;
}

}  // namespace troupe::runtime

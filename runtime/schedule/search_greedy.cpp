#include "runtime/core/error.hpp"
#include "runtime/schedule/search.hpp"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

struct chunk_state {
  int rank = 0, later_here = 0;  ///< later_here: later chunks of the model on this rank
  double forward = 0, input = 0, weight = 0;
  int next[3] = {0, 0, 0};
  std::vector<double> arrival[2];  ///< arrival of the inputs of F and I
};

struct rank_state {
  std::vector<int> hosted;  ///< ascending
  int held = 0, live = 0, depth = 0;
  double free_at = 0;
  std::vector<int> owed;  ///< chunks with pending W, in the order of their I
  std::size_t paid = 0;

  bool owes() const { return paid < owed.size(); }
};

class greedy {
 public:
  greedy(const search_problem& of, const greedy_policy& by) : of_(of), by_(by) {
    ranks_.resize(std::size_t(of.ranks));
    rows_.resize(std::size_t(of.ranks));
    chunks_.resize(std::size_t(of.chunks()));
    for (int c = 0; c < of.chunks(); ++c)
      ranks_[std::size_t(of.placement[std::size_t(c)])].hosted.push_back(c);
    for (int c = 0; c < of.chunks(); ++c) {
      auto& x = chunks_[std::size_t(c)];
      const auto& cost = of.costs.cost_of(chunk_id(c));
      x.rank = of.placement[std::size_t(c)];
      const auto& here = ranks_[std::size_t(x.rank)].hosted;
      x.later_here = int(here.end() - std::find(here.begin(), here.end(), c)) - 1;
      x.forward = cost.forward;
      x.input = cost.input_gradients;
      x.weight = cost.weight_gradients;
      for (auto& of_kind : x.arrival)
        of_kind.assign(std::size_t(of.microbatches), never);
      if (c == 0)
        x.arrival[0].assign(std::size_t(of.microbatches), 0.0);
      scale_ = std::max({scale_, x.forward, x.input, x.weight});
    }
    set_depths();
    if (!by.steps.empty())
      set_pattern();
    for (auto& row : rows_)
      row.reserve(std::size_t(of.actions() / of.ranks));
  }

  search_result run() {
    wake(0, of_.placement[0]);
    while (!events_.empty()) {
      const auto [time, rank] = events_.top();
      events_.pop();
      if (ranks_[std::size_t(rank)].free_at > time)
        continue;
      if (order_.empty())
        decide(rank, time);
      else
        follow(rank, time);
    }
    std::int64_t done = 0;
    for (const auto& row : rows_)
      done += std::int64_t(row.size());
    if (done != of_.actions() && !by_.steps.empty())
      return {{}, never};
    ensure(done == of_.actions(), "SEARCH-1: a rank that may hold a micro-batch is never stuck");
    return {std::move(rows_), end_};
  }

 private:
  void set_depths() {
    // The time from F of a chunk to its I, and the sums over a rank's chunks.
    std::vector<double> trip(chunks_.size());
    double later = 0;
    for (int c = of_.chunks(); c-- > 0;) {
      const auto& x = chunks_[std::size_t(c)];
      later += x.forward;
      trip[std::size_t(c)] = later;
      later += x.input + (c > 0 ? 2 * of_.transfer_after(c - 1) : 0);
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      auto& rank = ranks_[r];
      double trips = 0, period = 0;
      for (const int c : rank.hosted) {
        const auto& x = chunks_[std::size_t(c)];
        trips += trip[std::size_t(c)];
        period += x.forward + x.input + x.weight;
      }
      const auto v = int(rank.hosted.size());
      double depth = by_.depth == 0 || period == 0 ? of_.capacity : v + by_.depth * trips / period;
      depth += by_.more * of_.ranks + by_.tilt * double(r);
      if (!by_.extra_depth.empty())
        depth += by_.extra_depth[r];
      rank.depth = int(std::clamp(depth, double(v), double(std::max(v, of_.capacity))));
    }
  }

  void set_pattern() {
    struct when {
      double time;
      int what;
    };
    std::vector<double> begin[2] = {std::vector<double>(chunks_.size()), {}};
    const auto pass = [&](int c) { return std::size_t(c / of_.ranks) * 2; };
    double time = 0;
    for (int c = 0; c < of_.chunks(); ++c) {
      begin[0][std::size_t(c)] = time;
      const double transfer = c + 1 < of_.chunks() ? of_.transfer_after(c) : 0;
      time += by_.steps[pass(c)] * (chunks_[std::size_t(c)].forward + transfer);
    }
    begin[1] = begin[0];
    for (int c = of_.chunks(); c-- > 0;) {
      begin[1][std::size_t(c)] = time;
      const double transfer = c > 0 ? of_.transfer_after(c - 1) : 0;
      time += by_.steps[pass(c) + 1] * (chunks_[std::size_t(c)].input + transfer);
    }
    double period = 0;
    for (const auto& rank : ranks_) {
      double work = 0, held = 0;
      for (const int c : rank.hosted) {
        const auto& x = chunks_[std::size_t(c)];
        work += x.forward + x.input + x.weight;
        held += begin[1][std::size_t(c)] - begin[0][std::size_t(c)] + x.input + x.weight;
      }
      period = std::max({period, work, held / of_.capacity});
    }
    period *= by_.period;
    order_.resize(ranks_.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      std::vector<when> all;
      for (const int c : ranks_[r].hosted)
        for (int m = 0; m < of_.microbatches; ++m)
          for (const int kind : {0, 1})
            all.push_back({begin[kind][std::size_t(c)] + m * period, kind * of_.chunks() + c});
      std::stable_sort(
          all.begin(), all.end(), [](const when& a, const when& b) { return a.time < b.time; });
      for (const auto& x : all)
        order_[r].push_back(x.what);
    }
    step_.resize(ranks_.size());
  }

  void follow(int r, double time) {
    auto& rank = ranks_[std::size_t(r)];
    const auto& order = order_[std::size_t(r)];
    auto& step = step_[std::size_t(r)];
    const double now = time + 1e-9 * scale_;
    bool full = false;
    double soon = never;
    if (step < order.size()) {
      const int kind = order[step] / of_.chunks(), c = order[step] % of_.chunks();
      soon = arrival(c, kind);
      full = kind == 0 && rank.held >= of_.capacity;
      if (soon <= now && !full) {
        ++step;
        return begin(r, kind, c, time);
      }
    }
    if (!rank.owes())
      return;
    const int c = rank.owed[rank.paid];
    if (full || soon - now >= by_.least_gap * chunks_[std::size_t(c)].weight)
      begin(r, 2, c, time);
  }

  void wake(double time, int rank) { events_.emplace(time, rank); }

  double arrival(int chunk, int kind) const {
    const auto& x = chunks_[std::size_t(chunk)];
    if (x.next[kind] == of_.microbatches)
      return never;
    return x.arrival[kind][std::size_t(x.next[kind])];
  }

  bool has_room(const rank_state& rank, int chunk) const {
    return rank.held < of_.capacity - chunks_[std::size_t(chunk)].later_here;
  }
  bool may_begin(const rank_state& rank, int chunk) const {
    return has_room(rank, chunk) && rank.live < rank.depth - chunks_[std::size_t(chunk)].later_here;
  }

  void decide(int r, double time) {
    auto& rank = ranks_[std::size_t(r)];
    const double now = time + 1e-9 * scale_;
    int forward = -1, input = -1;
    bool full = false;
    double soon = never, gradient_soon = never;
    for (const int c : rank.hosted) {
      if (const double at = arrival(c, 1); at > now)
        gradient_soon = std::min(gradient_soon, at);
      else if (input < 0 || by_.late_gradients_first)
        input = c;
      const double at = arrival(c, 0);
      if (at <= now && may_begin(rank, c)) {
        if (forward < 0 || by_.late_chunks_first)
          forward = c;
      } else if (at <= now)
        full = full || !has_room(rank, c);
      else if (may_begin(rank, c))
        soon = std::min(soon, at);
    }
    soon = std::min(soon, gradient_soon);
    if (by_.debt > 0 && int(rank.owed.size() - rank.paid) >= by_.debt)
      return begin(r, 2, rank.owed[rank.paid], time);
    if (forward >= 0 && (input < 0 || by_.forward_first)) {
      const double patience = by_.patience * chunks_[std::size_t(forward)].forward;
      if (by_.forward_first || gradient_soon - time >= patience)
        return begin(r, 0, forward, time);
    } else if (input >= 0)
      return begin(r, 1, input, time);
    if (!rank.owes())
      return;  // the next arrival wakes the rank
    const int c = rank.owed[rank.paid];
    if (full || soon - now >= by_.least_gap * chunks_[std::size_t(c)].weight)
      begin(r, 2, c, time);
  }

  void begin(int r, int kind, int chunk, double time) {
    auto& rank = ranks_[std::size_t(r)];
    auto& x = chunks_[std::size_t(chunk)];
    const int m = x.next[kind]++;
    rows_[std::size_t(r)].push_back(
        std::uint32_t((kind * of_.chunks() + chunk) * of_.microbatches + m));
    const double end = time + (kind == 0 ? x.forward : kind == 1 ? x.input : x.weight);
    rank.free_at = end;
    end_ = std::max(end_, end);
    wake(end, r);
    if (kind == 0) {
      ++rank.held;
      ++rank.live;
      if (chunk + 1 < of_.chunks())
        arrive(chunk + 1, 0, m, end + of_.transfer_after(chunk));
      else
        arrive(chunk, 1, m, end);
    } else if (kind == 1) {
      --rank.live;
      rank.owed.push_back(chunk);
      if (chunk > 0)
        arrive(chunk - 1, 1, m, end + of_.transfer_after(chunk - 1));
    } else {
      --rank.held;
      ++rank.paid;
    }
  }

  void arrive(int chunk, int kind, int m, double time) {
    auto& x = chunks_[std::size_t(chunk)];
    x.arrival[kind][std::size_t(m)] = time;
    if (ranks_[std::size_t(x.rank)].free_at <= time)  // a busy rank decides when it is free
      wake(time, x.rank);
  }

  using event = std::pair<double, int>;

  const search_problem& of_;
  const greedy_policy& by_;
  std::vector<rank_state> ranks_;
  std::vector<chunk_state> chunks_;
  search_rows rows_;
  /// F and I as kind * chunks + chunk, in the order of the pattern
  std::vector<std::vector<int>> order_;
  std::vector<std::size_t> step_;
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
  double scale_ = 0, end_ = 0;
};

}  // namespace

search_result run_greedy(const search_problem& of, const greedy_policy& by) {
  return greedy(of, by).run();
}

}  // namespace troupe::runtime

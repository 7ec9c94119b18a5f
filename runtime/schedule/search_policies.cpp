#include "runtime/schedule/search.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe::runtime {
namespace {

class policy_search {
 public:
  policy_search(const search_problem& of, double bound, std::int64_t budget)
      : of_(of), goal_(bound * (1 + 1e-9)), left_(budget) {}

  /// Tries only the given policies, which were good for another problem.
  search_result run(const std::vector<greedy_policy>& liked) {
    for (const auto& x : liked)
      consider(x);
    return std::move(best_);
  }

  /// The best policies of run(), without duplicates, for a problem with this number of ranks.
  /// Values for single ranks do not transfer to another number of ranks.
  std::vector<greedy_policy> liked(std::size_t most, int ranks) const {
    std::vector<greedy_policy> out;
    for (auto [makespan, x] : tried_) {
      if (ranks != of_.ranks)
        x.extra_depth.clear();
      if (out.size() < most && std::find(out.begin(), out.end(), x) == out.end())
        out.push_back(x);
    }
    return out;
  }

  search_result run() {
    for (const double depth : {1.0, 0.0, 2.0})
      for (const double least_gap : {1.0, 0.0, 0.5})
        for (const bool forward_first : {false, true}) {
          greedy_policy x;
          x.depth = depth;
          x.least_gap = least_gap;
          x.forward_first = forward_first;
          consider(x);
          x.tilt = 1;
          x.depth *= 1.25;
          x.late_gradients_first = true;
          if (of_.chunks_per_rank() > 1)
            consider(x);
        }
    for (const double back : {1.0, 1.5, 2.0})
      for (const double there : {1.0, 1.5, 2.0, 3.0}) {
        greedy_policy x;
        for (int pass = 0; pass < of_.chunks_per_rank(); ++pass) {
          x.steps.push_back(pass == 0 ? there : 1);
          x.steps.push_back(pass == 0 ? back : 1);
        }
        consider(x);
      }
    // Starts from several: the optimum is rarely near the best of the first few.
    const auto starts = tried_;
    for (std::size_t i = 0; i < std::min<std::size_t>(8, starts.size()); ++i)
      vary(starts[i].second);
    for (const auto& [makespan, x] : tried_)
      if (x.steps.empty()) {
        deepen(greedy_policy(x));
        break;
      }
    return std::move(best_);
  }

 private:
  bool is_over() const { return left_ <= 0 || best_.makespan <= goal_; }

  double consider(const greedy_policy& x) {
    if (is_over() && !tried_.empty())
      return std::numeric_limits<double>::infinity();
    left_ -= of_.actions();
    auto found = run_greedy(of_, x);
    const double makespan = found.makespan;
    const auto place
        = std::upper_bound(tried_.begin(), tried_.end(), makespan, [](double a, const auto& b) {
            return a < b.first;
          });
    tried_.insert(place, {makespan, x});
    if (makespan < best_.makespan)
      best_ = std::move(found);
    return makespan;
  }

  /// Varies one parameter after another until none improves the result.
  void vary(greedy_policy x) {
    double now = std::numeric_limits<double>::infinity();
    for (bool better = true; better && !is_over();) {
      better = false;
      const auto attempt = [&](auto greedy_policy::*which, const auto& values) {
        auto y = x;
        for (const auto& to : values) {
          y.*which = to;
          if (y == x && now < std::numeric_limits<double>::infinity())
            continue;
          if (const double then = consider(y); then < now * (1 - 1e-12)) {
            better = better || !(y == x);
            now = then;
            x = y;
          }
        }
      };
      if (!x.steps.empty()) {
        for (std::size_t i = 0; i < x.steps.size(); ++i) {
          const auto y = x;
          for (const double to : {1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0}) {
            auto z = y;
            z.steps[i] = to;
            if (const double then = consider(z); then < now * (1 - 1e-12)) {
              better = true;
              now = then;
              x = z;
            }
          }
        }
        attempt(&greedy_policy::period, std::vector<double>{0.9, 0.95, 1, 1.05, 1.1, 1.2});
        attempt(&greedy_policy::least_gap, std::vector<double>{0, 0.1, 0.25, 0.5, 0.75, 1});
        continue;
      }
      const std::vector<char> both{0, 1};
      attempt(&greedy_policy::depth,
              std::vector<double>{x.depth, 0, 0.6, 0.8, 1, 1.25, 1.5, 1.75, 2, 2.5, 3});
      attempt(&greedy_policy::more,
              std::vector<double>{0, 0.0625, -0.0625, 0.125, -0.125, 0.25, -0.25, 0.5, -0.5, -1});
      attempt(&greedy_policy::tilt, std::vector<double>{0, 0.25, -0.25, 0.5, -0.5, 1, -1});
      attempt(&greedy_policy::least_gap, std::vector<double>{0, 0.1, 0.25, 0.5, 0.75, 1});
      attempt(&greedy_policy::debt,
              std::vector<int>{0, 1, 2, 3, of_.ranks / 2, of_.ranks, 2 * of_.ranks});
      attempt(&greedy_policy::patience, std::vector<double>{0, 0.25, 0.5, 0.75, 1});
      attempt(&greedy_policy::forward_first, both);
      if (of_.chunks_per_rank() > 1) {
        attempt(&greedy_policy::late_chunks_first, both);
        attempt(&greedy_policy::late_gradients_first, both);
      }
    }
  }

  void deepen(greedy_policy x) {
    x.extra_depth.assign(std::size_t(of_.ranks), 0);
    double now = consider(x);
    for (bool better = true; better && !is_over();) {
      better = false;
      for (std::size_t r = 0; r < x.extra_depth.size(); ++r)
        for (const int by : {1, -1, 2, -2}) {
          auto one = x, rest = x;
          one.extra_depth[r] += by;
          for (auto i = r; i < rest.extra_depth.size(); ++i)
            rest.extra_depth[i] += by;
          for (const auto& y : {one, rest})
            if (const double then = consider(y); then < now * (1 - 1e-12)) {
              now = then;
              x = y;
              better = true;
            }
        }
    }
  }

  const search_problem& of_;
  double goal_;
  std::int64_t left_;
  search_result best_{{}, std::numeric_limits<double>::infinity()};
  std::vector<std::pair<double, greedy_policy>> tried_;  ///< fastest first
};

/// A smaller version of the problem: policies are relative to round trips, so good ones transfer.
search_problem reduced(const search_problem& of, std::int64_t actions) {
  auto out = of;
  const auto v = of.chunks_per_rank();
  while (out.actions() > actions && out.ranks > 4) {
    out.ranks = (out.ranks + 1) / 2;
    out.microbatches = (out.microbatches + 1) / 2;
    out.capacity = std::max(v, (out.capacity + 1) / 2);
    out.placement.resize(std::size_t(out.ranks * v));
  }
  if (of.costs.costs.size() > 1) {
    out.costs.costs.clear();
    for (int c = 0; c < out.ranks * v; ++c) {
      const int pass = c / out.ranks, place = c % out.ranks;
      out.costs.costs.push_back(
          of.costs.cost_of(chunk_id(pass * of.ranks + place * of.ranks / out.ranks)));
    }
  }
  const bool in_v = v > 1 && of.placement[std::size_t(of.ranks)] == of.ranks - 1;
  out.placement = in_v ? placed_in_v(out.ranks) : placed_in_turn(out.ranks, v);
  while (out.actions() > actions && out.microbatches > 4 * out.ranks)
    out.microbatches = (out.microbatches + 1) / 2;
  return out;
}

}  // namespace

search_result search_policies(const search_problem& of, double bound, std::int64_t budget) {
  constexpr std::int64_t runs = 400;  // minimum number of runs for a useful search
  if (budget / of.actions() >= runs)
    return policy_search(of, bound, budget).run();
  const auto small = reduced(of, budget / runs);
  policy_search scout(small, lower_bound(small), budget);
  scout.run();
  return policy_search(of, bound, budget)
      .run(scout.liked(std::size_t(budget / of.actions()), of.ranks));
}

}  // namespace troupe::runtime

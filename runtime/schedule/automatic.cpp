#include "runtime/schedule/automatic.hpp"

#include "runtime/core/error.hpp"
#include "runtime/schedule/check.hpp"
#include "runtime/schedule/search.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <tuple>

namespace troupe::runtime {
namespace {

// Limits per placement, counted in actions that a search schedules or evaluates.
constexpr std::int64_t greedy_budget = 4'000'000;
constexpr std::int64_t improvement_budget = 25'000'000;
constexpr std::int64_t most_rounds = 50'000;
constexpr std::int64_t largest_search = 4'000'000;
constexpr int most_searched_forwards = 1 << 23;

struct candidate {
  plan what;
  std::string from;
  double makespan = 0;
  double peak = 0;  ///< of a rank, in units of its whole share
};

struct placement_choice {
  std::string words;
  std::vector<int> of;
};

void check_request(const schedule_request& request) {
  if (request.ranks < 1 || request.microbatches < 1 || request.chunks_per_rank < 0)
    throw input_error(
        "auto for {} ranks, {} micro-batches and {} chunks per rank: give at least 1 of each "
        "(chunks may be left out)",
        request.ranks,
        request.microbatches,
        request.chunks_per_rank);
  if (double(request.ranks) * std::max(1, request.chunks_per_rank) * request.microbatches
      > most_searched_forwards)
    throw input_error(
        "auto for {} ranks and {} micro-batches: a plan holds at most {} forwards: "
        "give fewer",
        request.ranks,
        request.microbatches,
        most_searched_forwards);
  const auto require_time = [](double x) {
    if (!std::isfinite(x) || x < 0)
      throw input_error("auto: times and memory limits are finite and at least 0; {} is not", x);
  };
  require_time(request.memory_limit);
  require_time(request.transfer);
  auto all = request.each;
  all.push_back(request.costs);
  for (const auto& x : all)
    for (const double time : {x.forward, x.input_gradients, x.weight_gradients, x.overlapped})
      require_time(time);
  const auto ranks = std::size_t(request.ranks);
  if (!request.each.empty()
      && (request.each.size() % ranks != 0
          || (request.chunks_per_rank != 0
              && request.each.size() / ranks != std::size_t(request.chunks_per_rank))))
    throw input_error(
        "auto for {} ranks: the times of {} chunks were given, which does not match the chunks per "
        "rank: give those of all chunks",
        request.ranks,
        request.each.size());
  if (request.memory_limit > 0 && request.memory_limit < 1)
    throw input_error(
        "auto: no schedule keeps a memory limit of {}: a rank holds at least 1, which is one "
        "micro-batch through its whole share; give 1 or more",
        request.memory_limit);
}

std::string words_of(int v, bool in_v) {
  return fmt::format("{} chunk{} per rank{}",
                     v,
                     v == 1 ? "" : "s",
                     v == 1 ? ""
                     : in_v ? ", in a V"
                            : ", in turn");
}

class finder {
 public:
  explicit finder(const schedule_request& request) : request_(request) {}

  found_schedule run() {
    std::vector<int> numbers{request_.chunks_per_rank};
    if (!request_.each.empty())
      numbers = {int(request_.each.size()) / request_.ranks};
    else if (request_.chunks_per_rank == 0)
      numbers = {1, 2};
    for (const int v : numbers) {
      const auto named = all_named(v);
      for (const auto& x : named)
        offer(x);
      if (3ll * v * request_.ranks * request_.microbatches > largest_search)
        continue;
      search(problem(v, placed_in_turn(request_.ranks, v)), named, words_of(v, false));
      if (v == 2 && request_.ranks > 1)
        search(problem(v, placed_in_v(request_.ranks)), named, words_of(v, true));
    }
    if (!best_)
      throw input_error(
          "auto for {} ranks and {} micro-batches: that is too large to search, and no named "
          "schedule keeps a memory limit of {}: give a higher one, or fewer micro-batches",
          request_.ranks,
          request_.microbatches,
          request_.memory_limit);
    const int v = best_->what.chunks / request_.ranks;
    const double bound = lower_bound(problem(v, best_->what.placement));
    best_->what.name = "auto";
    return {std::move(best_->what), best_->from, best_->makespan, std::min(bound, best_->makespan)};
  }

 private:
  search_problem problem(int v, std::vector<int> placement) const {
    const double all = double(request_.microbatches) * v;
    const double most = request_.memory_limit > 0 ? request_.memory_limit * v + 1e-9 : all;
    return {request_.ranks,
            request_.microbatches,
            std::move(placement),
            costs(v),
            int(std::min(most, all))};
  }

  cost_model costs(int v) const {
    auto out = shared_costs(request_.costs, v);
    if (!request_.each.empty())
      out.costs = request_.each;
    out.transfer = request_.transfer;
    return out;
  }

  /// The named schedules within the limit.
  std::vector<candidate> all_named(int v) const {
    std::vector<candidate> out;
    for (const auto& name : named_schedules()) {
      if (name.copies > 1 || name.name == "auto"
          || (name.chunks_per_rank != v && !name.other_chunks))
        continue;
      auto asked = request_;
      asked.chunks_per_rank = v;
      asked.group = 0;
      asked.each.clear();
      try {
        if (auto x = timed(generate(name.name, asked), std::string(name.name)); fits(x))
          out.push_back(std::move(x));
      } catch (const input_error&) {
        // The schedule does not allow these sizes, or this limit.
      }
    }
    return out;
  }

  candidate timed(plan x, std::string from) const {
    const int v = x.chunks / request_.ranks;
    const auto when = simulate(x, costs(v));
    candidate out{std::move(x), std::move(from), when.makespan};
    for (const auto& rank : when.ranks)
      out.peak = std::max(out.peak, double(rank.peak_chunks) / v);
    return out;
  }

  bool fits(const candidate& x) const {
    return request_.memory_limit == 0 || x.peak <= request_.memory_limit + 1e-9;
  }

  void search(const search_problem& of,
              const std::vector<candidate>& named,
              const std::string& words) {
    const double bound = lower_bound(of);
    auto found = search_policies(of, bound, greedy_budget);
    const auto from = "search, " + words;
    offer(timed(to_plan(of, found.rows), from));
    const auto budget = std::min(improvement_budget, most_rounds * of.actions());
    const auto improved = [&](search_result start, const std::string& name) {
      offer(timed(to_plan(of, improve(of, std::move(start), bound, budget).rows), name));
    };
    improved(std::move(found), from);
    const candidate* best = nullptr;
    std::optional<search_rows> rows;
    for (const auto& x : named)
      if (!best || x.makespan < best->makespan)
        if (auto same = to_rows(of, x.what)) {
          best = &x;
          rows = std::move(same);
        }
    if (best)
      improved({std::move(*rows), best->makespan}, best->from + ", improved");
  }

  void offer(candidate x) {
    if (!fits(x))
      throw broken_promise("SEARCH-2: what a search finds keeps the memory limit");
    if (!best_ || is_better(x, *best_))
      best_ = std::move(x);
  }

  static bool is_better(const candidate& a, const candidate& b) {
    if (std::abs(a.makespan - b.makespan) > 1e-9 * b.makespan)
      return a.makespan < b.makespan;
    const auto blame = [](const candidate& x) {
      return std::tuple(!accumulates_in_order(x.what), x.peak, x.what.chunks);
    };
    return blame(a) < blame(b);
  }

  const schedule_request& request_;
  std::optional<candidate> best_;
};

}  // namespace

found_schedule find_best(const schedule_request& request) {
  check_request(request);
  return finder(request).run();
}

}  // namespace troupe::runtime

#include "runtime/schedule/search.hpp"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr auto none = std::numeric_limits<std::uint32_t>::max();

/// Computes the times of rows and what they wait for. Keeps only buffers between calls.
class stopwatch {
 public:
  explicit stopwatch(const search_problem& of)
      : of_(of),
        chunks_(std::uint32_t(of.chunks())),
        microbatches_(std::uint32_t(of.microbatches)),
        end_(std::size_t(of.actions())),
        waiter_(std::size_t(of.actions())),
        at_(std::size_t(of.ranks)) {
    for (std::uint32_t x = 0; x < 3 * chunks_; ++x) {
      const auto& cost = of.costs.cost_of(chunk_id(x % chunks_));
      length_.push_back(x < chunks_       ? cost.forward
                        : x < 2 * chunks_ ? cost.input_gradients
                                          : cost.weight_gradients);
      const auto c = int(x % chunks_);
      delay_.push_back(x < chunks_ ? c > 0 ? of.transfer_after(c - 1) : 0
                       : x < 2 * chunks_ && c + 1 < of.chunks() ? of.transfer_after(c)
                                                                : 0);
    }
  }

  std::uint32_t kind_and_chunk(std::uint32_t x) const { return x / microbatches_; }
  bool is_weight(std::uint32_t x) const { return kind_and_chunk(x) >= 2 * chunks_; }

  /// The action that x waits for, besides its predecessor in the row.
  std::uint32_t needs(std::uint32_t x) const {
    const auto kc = kind_and_chunk(x), m = microbatches_;
    if (kc < chunks_)
      return kc > 0 ? x - m : none;
    if (kc < 2 * chunks_)
      return kc + 1 < 2 * chunks_ ? x + m : x - chunks_ * m;
    return x - chunks_ * m;
  }

  /// Infinity for a deadlock.
  double time(const search_rows& rows) {
    std::fill(end_.begin(), end_.end(), -1.0);
    std::fill(waiter_.begin(), waiter_.end(), none);
    std::vector<std::uint32_t> ready(rows.size());
    for (std::uint32_t r = 0; r < rows.size(); ++r) {
      ready[r] = r;
      at_[r] = {0, 0.0};
    }
    std::size_t done = 0;
    double makespan = 0;
    while (!ready.empty()) {
      const auto r = ready.back();
      ready.pop_back();
      auto [i, free] = at_[r];
      for (; i < rows[r].size(); ++i) {
        const auto x = rows[r][i];
        const auto before = needs(x);
        if (before != none) {
          if (end_[before] < 0) {
            waiter_[before] = r;
            break;
          }
          free = std::max(free, end_[before] + delay_[kind_and_chunk(x)]);
        }
        free += length_[kind_and_chunk(x)];
        end_[x] = free;
        ++done;
        if (waiter_[x] != none)
          ready.push_back(waiter_[x]);
      }
      at_[r] = {i, free};
      makespan = std::max(makespan, free);
    }
    return done == end_.size() ? makespan : std::numeric_limits<double>::infinity();
  }

  struct action_position {
    std::uint32_t rank, position;
  };
  /// For the last timed rows: positions with a predecessor in the row that is also on the critical
  /// path.
  void find_critical(const search_rows& rows, std::vector<action_position>& out) const {
    out.clear();
    action_position at{};
    double last = -1;
    for (std::uint32_t r = 0; r < rows.size(); ++r)
      if (!rows[r].empty() && end_[rows[r].back()] > last) {
        last = end_[rows[r].back()];
        at = {r, std::uint32_t(rows[r].size() - 1)};
      }
    for (;;) {
      const auto x = rows[at.rank][at.position];
      const double begin = end_[x] - length_[kind_and_chunk(x)];
      const auto before = needs(x);
      const double arrived = before == none ? 0 : end_[before] + delay_[kind_and_chunk(x)];
      const double free = at.position == 0 ? 0 : end_[rows[at.rank][at.position - 1]];
      if (at.position > 0 && free >= arrived) {
        out.push_back(at);
        --at.position;
      } else if (before != none && begin > 0) {
        const auto& row = rows[std::size_t(rank_of(before))];
        // Rows are long and ends ascend: use bisection.
        const auto found
            = std::lower_bound(row.begin(), row.end(), end_[before], [&](auto a, double end) {
                return end_[a] < end;
              });
        at = {std::uint32_t(rank_of(before)), std::uint32_t(found - row.begin())};
        while (row[at.position] != before)
          ++at.position;  // some actions take no time
      } else
        return;
    }
  }

  int rank_of(std::uint32_t x) const { return of_.placement[kind_and_chunk(x) % chunks_]; }

  /// True if `second`, right after `first`, may come before it according to their dependencies.
  bool may_pass(std::uint32_t first, std::uint32_t second) const {
    return kind_and_chunk(first) != kind_and_chunk(second) && needs(second) != first
           && !(kind_and_chunk(second) >= chunks_ && !is_weight(second)
                && first + chunks_ * microbatches_ == second);
  }

  int held_after(std::uint32_t x) const {
    return kind_and_chunk(x) < chunks_ ? 1 : is_weight(x) ? -1 : 0;
  }

 private:
  const search_problem& of_;
  std::uint32_t chunks_, microbatches_;
  std::vector<double> length_, delay_;  ///< by kind and chunk
  std::vector<double> end_;             ///< by action
  std::vector<std::uint32_t> waiter_;
  std::vector<std::pair<std::size_t, double>> at_;
};

using row = std::vector<std::uint32_t>;

bool fits(const stopwatch& clock, const row& of, int capacity) {
  int held = 0;
  for (const auto x : of)
    if ((held += clock.held_after(x)) > capacity)
      return false;
  return true;
}

/// Rotates [begin, end] of a row to the left (the first element goes to the end) or right.
struct move {
  std::uint32_t rank = 0, begin = 0, end = 0;
  bool left = true;

  void apply(search_rows& rows) const { turn(rows, left); }
  void undo(search_rows& rows) const { turn(rows, !left); }

 private:
  void turn(search_rows& rows, bool to_left) const {
    const auto from = rows[rank].begin() + begin, to = rows[rank].begin() + end + 1;
    std::rotate(from, to_left ? from + 1 : to - 1, to);
  }
};

/// A swap of neighbours, or a move of W behind actions that may pass it.
bool choose(const stopwatch& clock,
            const search_rows& rows,
            stopwatch::action_position at,
            std::uint64_t luck,
            move& out) {
  const auto& here = rows[at.rank];
  auto first = at.position - 1;
  if (!clock.may_pass(here[first], here[at.position]))
    return false;
  out = {at.rank, first, at.position, true};
  if (!clock.is_weight(here[first]))
    return true;
  const auto reach = std::uint32_t(luck % 8);
  while (out.end + 1 < here.size() && out.end - at.position < reach
         && clock.may_pass(here[first], here[out.end + 1]))
    ++out.end;
  return true;
}

}  // namespace

search_result improve(const search_problem& of,
                      search_result best,
                      double bound,
                      std::int64_t budget) {
  stopwatch clock(of);
  auto rows = best.rows;
  double now = clock.time(rows);
  best.makespan = now;
  const double goal = bound * (1 + 1e-9);
  std::mt19937_64 luck(1);
  std::vector<stopwatch::action_position> critical;
  clock.find_critical(rows, critical);
  const auto rounds = budget / std::max<std::int64_t>(1, of.actions());
  double period = 0;
  for (int c = 0; c < of.chunks(); ++c) {
    const auto& cost = of.costs.cost_of(chunk_id(c));
    period += (cost.forward + cost.input_gradients + cost.weight_gradients) / of.chunks();
  }
  for (std::int64_t round = 0; round < rounds && best.makespan > goal && !critical.empty();
       ++round) {
    // Also accepts results that are worse than the best by less than this; decreases over time.
    const double patience = 0.5 * period * std::max(0.0, 1 - 1.25 * double(round) / double(rounds));
    move next;
    if (!choose(clock, rows, critical[std::size_t(luck() % critical.size())], luck(), next))
      continue;
    next.apply(rows);
    double then = std::numeric_limits<double>::infinity();
    if (fits(clock, rows[next.rank], of.capacity))
      then = clock.time(rows);
    if (then > std::max(now, best.makespan + patience)) {
      next.undo(rows);
      continue;
    }
    now = then;
    clock.find_critical(rows, critical);
    if (now < best.makespan * (1 - 1e-12))
      best = {rows, now};
  }
  return best;
}

}  // namespace troupe::runtime

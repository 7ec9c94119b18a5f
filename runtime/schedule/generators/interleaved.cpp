#include "runtime/core/error.hpp"
#include "runtime/schedule/generators/rules.hpp"

#include <algorithm>

namespace troupe::runtime::schedules {
namespace {

/// The number of micro-batches of each round. The default is the number of ranks, or a few more if
/// they do not divide evenly: a round smaller than the ranks would wait for itself.
std::vector<int> rounds_of(const schedule_request& request) {
  const int p = request.ranks, m = request.microbatches, n = request.group;
  std::vector<int> out;
  if (n == 0) {
    for (int left = m, rounds = std::max(1, m / p); rounds > 0; --rounds) {
      out.push_back((left + rounds - 1) / rounds);
      left -= out.back();
    }
    return out;
  }
  for (int first = 0; first < m; first += n)
    out.push_back(std::min(n, m - first));
  return out;
}

void check_group(std::string_view name, const schedule_request& request) {
  const int p = request.ranks, m = request.microbatches, n = request.group;
  if (n == 0)
    return;
  if (n < 0 || n < std::min(p, m) || n > m)
    throw input_error(
        "{} with {} ranks and {} micro-batches: a group of {} micro-batches per chunk is out of "
        "range: give between {} and {}, or 0 for as many as ranks",
        name,
        p,
        m,
        n,
        std::min(p, m),
        m);
  if (const int rest = m % n; rest > 0 && rest < p)
    throw input_error(
        "{} with {} ranks: {} micro-batches in groups of {} leave {} for the last group, and a "
        "group smaller than the ranks waits for itself: give {} or {} micro-batches, or group 0",
        name,
        p,
        m,
        n,
        rest,
        m - rest,
        m - rest + p);
}

struct turn {
  int chunk;  ///< index among the chunks of the rank, ascending
  int microbatch;
};

/// The order of a rank's forwards; backwards use the same order with the chunks reversed.
std::vector<turn> turns_of(int chunks_per_rank, const std::vector<int>& rounds) {
  std::vector<turn> out;
  int first = 0;
  for (const int size : rounds) {
    for (int c = 0; c < chunks_per_rank; ++c)
      for (int m = first; m < first + size; ++m)
        out.push_back({c, m});
    first += size;
  }
  return out;
}

/// Writes one rank's row; forwards and backwards follow the same turns.
class writer {
 public:
  writer(std::vector<action>& row,
         const std::vector<turn>& turns,
         int rank,
         const schedule_request& request)
      : row_(row),
        turns_(turns),
        rank_(rank),
        ranks_(request.ranks),
        last_(request.chunks_per_rank - 1) {}

  void forward(std::size_t k) { add(action_kind::forward, turns_[k].chunk, turns_[k].microbatch); }
  void back(action_kind kind, std::size_t k) {
    add(kind, last_ - turns_[k].chunk, turns_[k].microbatch);
  }

 private:
  void add(action_kind kind, int chunk, int microbatch) {
    row_.push_back({kind, chunk_id(chunk * ranks_ + rank_), microbatch_id(microbatch)});
  }

  std::vector<action>& row_;
  const std::vector<turn>& turns_;
  int rank_, ranks_, last_;
};

}  // namespace

plan interleaved(const schedule_request& request) {
  check_group("interleaved", request);
  const int p = request.ranks, v = request.chunks_per_rank;
  const auto rounds = rounds_of(request);
  const auto turns = turns_of(v, rounds);
  auto out = empty_plan(request, placed_in_turn(p, v));
  for (int r = 0; r < p; ++r) {
    writer to(out.ranks[std::size_t(r)], turns, r, request);
    // A single chunk has no turns: the rest is 1F1B, with half the head start.
    const int ahead = (v - 1) * rounds.front() + (v == 1 ? 1 : 2) * (p - 1 - r);
    const auto warmup = std::min(turns.size(), std::size_t(ahead));
    for (std::size_t k = 0; k < warmup; ++k)
      to.forward(k);
    for (std::size_t k = 0; k < turns.size(); ++k) {
      if (k + warmup < turns.size())
        to.forward(k + warmup);
      to.back(action_kind::backward, k);
    }
  }
  return out;
}

plan zero_bubble_in_turn(const schedule_request& request) {
  const int p = request.ranks, v = request.chunks_per_rank;
  check_group("izb", request);
  const auto rounds = rounds_of(request);
  const auto turns = turns_of(v, rounds);
  auto out = empty_plan(request, placed_in_turn(p, v));
  for (int r = 0; r < p; ++r) {
    writer to(out.ranks[std::size_t(r)], turns, r, request);
    const auto late = std::size_t(r);
    const auto warmup = std::min(turns.size(), std::size_t((v - 1) * rounds.front() + p - 1 - r));
    for (std::size_t k = 0; k < warmup; ++k)
      to.forward(k);
    for (std::size_t k = 0; k < turns.size(); ++k) {
      if (k + warmup < turns.size())
        to.forward(k + warmup);
      to.back(action_kind::input_gradients, k);
      if (k >= late)
        to.back(action_kind::weight_gradients, k - late);
    }
    for (auto k = turns.size() - std::min(turns.size(), late); k < turns.size(); ++k)
      to.back(action_kind::weight_gradients, k);
  }
  return out;
}

}  // namespace troupe::runtime::schedules

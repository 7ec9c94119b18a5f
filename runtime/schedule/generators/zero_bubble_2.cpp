#include "runtime/core/error.hpp"
#include "runtime/schedule/generators/rules.hpp"
#include "runtime/schedule/generators/strand.hpp"

#include <algorithm>

namespace troupe::runtime::schedules {
namespace {

/// Repeats F, I, W, with I `ahead` forwards behind F, and W as far behind I as the limit allows.
/// Limit p gives ZB-H1. With a limit of 2 p - 1 or more, a rank waits within its span for
/// (p - 1) max(0, F + I - 2 W, I - F), which is 0 if F = I = W.
void in_lockstep(plan& out, int limit) {
  const int p = int(out.ranks.size()), m = out.microbatches;
  for (int r = 0; r < p; ++r) {
    strand chunk(out.ranks[std::size_t(r)], m, r);
    const int ahead = std::min(2 * (p - 1 - r), limit - 1 - r), late = limit - 1 - ahead;
    for (int k = 0; k < ahead; ++k)
      chunk.forward();
    for (int k = 0; k < m; ++k) {
      chunk.forward();
      chunk.input_gradients();
      if (k >= late)
        chunk.weight_gradients();
    }
    while (chunk.has_weights_left())
      chunk.weight_gradients();
  }
}

/// Counts before this tick: in tick t a rank sees what the others did before t.
struct progress {
  int forwards = 0, inputs = 0, weights = 0;
};

/// Used if the limit or the number of micro-batches is below the ranks, which prevents the
/// lockstep. In each tick each rank does the first possible of these: forwards of its head start,
/// I, F within the limit, W.
void as_they_come(plan& out, int limit) {
  const int p = int(out.ranks.size()), m = out.microbatches;
  std::vector<strand> chunks;
  for (int r = 0; r < p; ++r)
    chunks.emplace_back(out.ranks[std::size_t(r)], m, r);
  std::vector<progress> before(out.ranks.size()), now;
  while (before.front().weights < m) {
    now = before;
    for (int r = 0; r < p; ++r) {
      const auto at = std::size_t(r);
      auto& mine = now[at];
      const int head_start = std::clamp(limit - r, 1, std::min(2 * (p - r) - 1, m));
      const bool can_forward = mine.forwards < std::min(m, mine.weights + limit)
                               && (r == 0 || mine.forwards < before[at - 1].forwards);
      const bool can_go_back
          = mine.inputs < mine.forwards && (r == p - 1 || mine.inputs < before[at + 1].inputs);
      if (can_forward && (mine.forwards < head_start || !can_go_back)) {
        chunks[at].forward();
        ++mine.forwards;
      } else if (can_go_back) {
        chunks[at].input_gradients();
        ++mine.inputs;
      } else if (mine.weights < mine.inputs) {
        chunks[at].weight_gradients();
        ++mine.weights;
      }
    }
    before.swap(now);
  }
}

}  // namespace

plan zero_bubble_2(const schedule_request& request) {
  const int p = request.ranks, m = request.microbatches;
  auto out = empty_plan(request, placed_in_turn(p, 1));
  const double most = 2.0 * p - 1;
  const double asked = request.memory_limit == 0 ? most : request.memory_limit;
  if (asked < 1)
    throw input_error(
        "zb-h2 within {} activations per rank: each rank holds at least one: give 1 or more",
        asked);
  const int limit = int(std::min(asked, most));
  if (limit >= p && m >= p)
    in_lockstep(out, std::min(limit, m));
  else
    as_they_come(out, limit);
  return out;
}

}  // namespace troupe::runtime::schedules

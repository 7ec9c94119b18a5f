#include "runtime/schedule/search.hpp"

#include <algorithm>
#include <limits>

namespace troupe::runtime {
namespace {

/// The minimum time of one micro-batch on a chunk, with and without pairs of F and B.
struct least_times {
  double forward, input, weight, all, before_weight;

  explicit least_times(const action_costs& x)
      : forward(x.forward),
        input(x.input_gradients),
        weight(x.weight_gradients),
        all(x.forward + x.input_gradients + x.weight_gradients),
        before_weight(x.forward + x.input_gradients) {
    if (x.overlapped <= 0 || x.overlapped >= all)
      return;
    all = x.overlapped;
    forward = std::min(forward, all);
    // In a pair, I and W end together with the whole pair.
    input = std::min(input, all);
    weight = 0;
    before_weight = std::min(before_weight, all);
  }
};

}  // namespace

double lower_bound(const search_problem& of) {
  const auto n = std::size_t(of.chunks());
  std::vector<least_times> least;
  for (std::size_t c = 0; c < n; ++c)
    least.emplace_back(of.costs.cost_of(chunk_id(c)));
  // For a single micro-batch: the earliest start of F and I of each chunk, and the time after its
  // I.
  std::vector<double> forward(n), input(n), rest(n), trip(n);
  for (std::size_t c = 1; c < n; ++c)
    forward[c] = forward[c - 1] + least[c - 1].forward + of.transfer_after(int(c) - 1);
  input[n - 1] = forward[n - 1] + least[n - 1].forward;
  for (std::size_t c = n - 1; c-- > 0;)
    input[c] = input[c + 1] + least[c + 1].input + of.transfer_after(int(c));
  for (std::size_t c = 0; c < n; ++c) {
    rest[c] = least[c].weight;
    if (c > 0)
      rest[c] = std::max(rest[c], of.transfer_after(int(c) - 1) + least[c - 1].input + rest[c - 1]);
    trip[c] = input[c] - forward[c] + least[c].input + least[c].weight;
  }
  double bound = input[0] + least[0].input + least[0].weight;
  const double m = of.microbatches;
  for (int r = 0; r < of.ranks; ++r) {
    const auto never = std::numeric_limits<double>::infinity();
    double first = never, first_input = never, last = never, longest_forward = 0;
    double work = 0, work_before_weights = 0, weights = 0, trips = 0, longest_rest = 0;
    int hosted = 0;
    for (std::size_t c = 0; c < n; ++c) {
      if (of.placement[c] != r)
        continue;
      first = std::min(first, forward[c]);
      first_input = std::min(first_input, input[c]);
      last = std::min(last, rest[c]);
      longest_rest = std::max(longest_rest, rest[c]);
      longest_forward = std::max(longest_forward, of.costs.cost_of(chunk_id(c)).forward);
      work += m * least[c].all;
      weights += m * least[c].weight;
      trips += m * trip[c];
      work_before_weights += m * least[c].before_weight;
      ++hosted;
    }
    if (hosted == 0)
      continue;
    // Memory is not released before the first I, so at most as many F fit as memory allows.
    const double room = std::min(double(of.capacity), m * hosted) * longest_forward;
    const double begun = std::min(room, first_input - first);
    bound = std::max(bound, first_input - begun + work);
    bound = std::max(bound, first_input - begun + work_before_weights + last);
    // A micro-batch occupies memory for a round trip; the capacity limits how many do at once.
    bound = std::max(bound, first + trips / of.capacity);
    if (hosted == 1) {
      const double turns = (of.microbatches + of.capacity - 1) / of.capacity;
      bound = std::max(bound, first + turns * trips / m - weights / m + longest_rest);
    }
  }
  return bound;
}

}  // namespace troupe::runtime

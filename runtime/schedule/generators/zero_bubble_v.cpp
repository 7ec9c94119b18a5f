#include "runtime/schedule/generators/rules.hpp"
#include "runtime/schedule/generators/strand.hpp"

#include <algorithm>

namespace troupe::runtime::schedules {

plan zero_bubble_v(const schedule_request& request) {
  const int p = request.ranks, m = request.microbatches;
  // The rule fills the pipeline with 2 p - 1 micro-batches; with fewer, it omits the others.
  const int rounds = std::max(2 * p - 1, m) - p;
  auto out = empty_plan(request, placed_in_v(p));
  for (int r = 0; r < p; ++r) {
    auto& row = out.ranks[std::size_t(r)];
    strand down(row, m, r), up(row, m, 2 * p - 1 - r);
    const auto go_back = [](strand& chunk) {
      chunk.input_gradients();
      chunk.weight_gradients();
    };
    for (int k = 0; k < 2 * (p - r) - 1; ++k)
      down.forward();
    for (int k = 0; k < r; ++k) {
      up.forward();
      down.forward();
    }
    for (int k = 0; k < p - r; ++k) {
      up.forward();
      go_back(up);
    }
    for (int k = 0; k < rounds; ++k) {
      down.forward();
      go_back(down);
      up.forward();
      go_back(up);
    }
    for (int k = 0; k < r; ++k) {
      down.input_gradients();
      up.input_gradients();
    }
    for (int k = 0; k < p - r; ++k)
      go_back(down);
    while (up.has_weights_left())
      up.weight_gradients();
    while (down.has_weights_left())
      down.weight_gradients();
  }
  return out;
}

}  // namespace troupe::runtime::schedules

#include "runtime/schedule/generators/draw_together.hpp"
#include "runtime/schedule/generators/rules.hpp"
#include "runtime/schedule/generators/slot_grid.hpp"
#include "runtime/schedule/generators/strand.hpp"

namespace troupe::runtime::schedules {
namespace {

using pattern = std::vector<std::array<int, steps_of_pattern>>;

/// Six units: F, I and W of both chunks, so that the ranks are always busy.
constexpr int period = 6;

plan from_pattern(const schedule_request& request, const pattern& first) {
  const int p = request.ranks, m = request.microbatches;
  slot_grid grid(first, period, m);
  draw_together(grid);
  draw_end_together(grid);
  auto out = empty_plan(request, placed_in_v(p));
  for (int r = 0; r < p; ++r) {
    auto& row = out.ranks[std::size_t(r)];
    strand down(row, m, r), up(row, m, 2 * p - 1 - r);
    const auto weights = [](strand& chunk) {
      const bool is_pending = chunk.weights() < chunk.inputs();
      if (is_pending)
        chunk.weight_gradients();
      return is_pending;
    };
    for (int slot = 0; slot < grid.slots(r); ++slot)
      switch (grid.at(r, slot).what) {
        case step::down_forward:
          down.forward();
          break;
        case step::up_forward:
          up.forward();
          break;
        case step::up_inputs:
          up.input_gradients();
          break;
        case step::down_inputs:
          down.input_gradients();
          break;
        default:
          // I of the upper chunk came first.
          (void)(weights(up) || weights(down));
      }
    while (weights(up) || weights(down))
      continue;
  }
  return out;
}

}  // namespace

// The patterns of the paper. The distance between a chunk's steps decides how many micro-batches
// are held. The offsets keep the steps in different slots modulo the period for each p.

plan v_half(const schedule_request& request) {
  const int p = request.ranks, gap = p % 2 == 0 ? 3 : 0;
  pattern first;
  for (int r = 0; r < p; ++r)
    first.push_back({2 * r, 3 * p - r - 2, 3 * p + gap + 2 * r - 1, 6 * p + gap - r - 2});
  return from_pattern(request, first);
}

plan v_min(const schedule_request& request) {
  const int p = request.ranks, gap = p % 3 == 0 ? 2 : 0;
  pattern first;
  for (int r = 0; r < p; ++r)
    first.push_back({r, 2 * p - r - 1, 2 * p + gap + r, 4 * p + gap - r - 1});
  return from_pattern(request, first);
}

}  // namespace troupe::runtime::schedules

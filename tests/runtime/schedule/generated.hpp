// Named schedules for tests, run by the simulator with the times of the reference comparison.

#pragma once

#include "runtime/schedule/check.hpp"
#include "runtime/schedule/generators.hpp"
#include "runtime/schedule/simulate.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

namespace troupe::tests {

inline runtime::plan generated(std::string_view name, int ranks, int microbatches, int chunks = 0) {
  runtime::schedule_request request;
  request.ranks = ranks;
  request.microbatches = microbatches;
  request.chunks_per_rank = chunks;
  return runtime::generate(name, request);
}

inline bool is_sound(const runtime::plan& x) {
  return runtime::check_plan(x).is_sound();
}

/// True if each chunk's weight gradients are added in ascending order of micro-batches.
inline bool adds_in_order(const runtime::plan& x) {
  for (const auto& row : x.ranks) {
    std::vector<unsigned> next(std::size_t(x.chunks * x.copies));
    for (const auto& a : row)
      if (a.kind == runtime::action_kind::backward
          || a.kind == runtime::action_kind::weight_gradients)
        if (value(a.microbatch) != next[value(a.copy) * std::size_t(x.chunks) + value(a.chunk)]++)
          return false;
  }
  return true;
}

/// `costs` are those of a rank's whole share.
inline runtime::timeline carried_out(const runtime::plan& x,
                                     const runtime::action_costs& costs = {},
                                     double transfer = 0) {
  auto by = runtime::shared_costs(costs, x.chunks / int(x.ranks.size()));
  by.transfer = transfer;
  return runtime::simulate(x, by);
}

inline double longest_idle(const runtime::timeline& x) {
  double out = 0;
  for (std::size_t r = 0; r < x.ranks.size(); ++r)
    out = std::max(out, x.idle(int(r)));
  return out;
}

inline double longest_span_idle(const runtime::timeline& x) {
  double out = 0;
  for (const auto& rank : x.ranks)
    out = std::max(out, rank.span_idle());
  return out;
}

inline int most_chunks(const runtime::timeline& x) {
  int out = 0;
  for (const auto& rank : x.ranks)
    out = std::max(out, rank.peak_chunks);
  return out;
}

}  // namespace troupe::tests

#include "runtime/schedule/generators/rules.hpp"
#include "runtime/schedule/generators/strand.hpp"

namespace troupe::runtime::schedules {

plan gpipe(const schedule_request& request) {
  auto out = empty_plan(request, placed_in_turn(request.ranks, 1));
  for (int r = 0; r < request.ranks; ++r) {
    strand chunk(out.ranks[std::size_t(r)], request.microbatches, r);
    for (int m = 0; m < request.microbatches; ++m)
      chunk.forward();
    for (int m = 0; m < request.microbatches; ++m)
      chunk.backward();
  }
  return out;
}

plan one_forward_one_backward(const schedule_request& request) {
  return runtime::one_forward_one_backward(request.ranks, request.microbatches);
}

plan looped_breadth_first(const schedule_request& request) {
  const int v = request.chunks_per_rank;
  auto out = empty_plan(request, placed_in_turn(request.ranks, v));
  for (int r = 0; r < request.ranks; ++r) {
    const auto add = [&](action_kind kind, int c, int m) {
      out.ranks[std::size_t(r)].push_back(
          {kind, chunk_id(c * request.ranks + r), microbatch_id(m)});
    };
    for (int c = 0; c < v; ++c)
      for (int m = 0; m < request.microbatches; ++m)
        add(action_kind::forward, c, m);
    for (int c = v; c-- > 0;)
      for (int m = request.microbatches; m-- > 0;)
        add(action_kind::backward, c, m);
  }
  return out;
}

}  // namespace troupe::runtime::schedules

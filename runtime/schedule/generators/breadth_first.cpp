#include "runtime/schedule/generators/rules.hpp"
#include "runtime/schedule/generators/strand.hpp"

namespace troupe::runtime::schedules {

plan gpipe(const schedule_request& how) {
  auto out = empty_plan(how, placed_in_turn(how.ranks, 1));
  for (int r = 0; r < how.ranks; ++r) {
    strand chunk(out.ranks[std::size_t(r)], how.microbatches, r);
    for (int m = 0; m < how.microbatches; ++m)
      chunk.forward();
    for (int m = 0; m < how.microbatches; ++m)
      chunk.backward();
  }
  return out;
}

plan one_forward_one_backward(const schedule_request& how) {
  return runtime::one_forward_one_backward(how.ranks, how.microbatches);
}

plan looped_breadth_first(const schedule_request& how) {
  const int v = how.chunks_per_rank;
  auto out = empty_plan(how, placed_in_turn(how.ranks, v));
  for (int r = 0; r < how.ranks; ++r) {
    const auto add = [&](action_kind kind, int c, int m) {
      out.ranks[std::size_t(r)].push_back({kind, chunk_id(c * how.ranks + r), microbatch_id(m)});
    };
    for (int c = 0; c < v; ++c)
      for (int m = 0; m < how.microbatches; ++m)
        add(action_kind::forward, c, m);
    for (int c = v; c-- > 0;)
      for (int m = how.microbatches; m-- > 0;)
        add(action_kind::backward, c, m);
  }
  return out;
}

}  // namespace troupe::runtime::schedules

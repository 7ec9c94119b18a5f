#include "runtime/schedule/meetings.hpp"

#include "runtime/schedule/plan_graph.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

namespace troupe::runtime {

meeting_of forwards_of_copies(const plan& x) {
  return [each = std::size_t(x.microbatches_each())](const action& a) {
    const auto number = value(a.chunk) * each + value(a.microbatch);
    return a.kind == action_kind::forward ? std::optional(number) : std::nullopt;
  };
}

// The two actions of a pair run one after the other, as in a stage.
std::string missed_meeting(const plan& x,
                           const handoff_credits& credits,
                           const meeting_of& meeting) {
  using node = plan_graph::node;
  const plan_graph graph(x, credits);
  std::vector<int> absent(graph.size());  // by meeting
  for (const auto& row : x.ranks)
    for (const auto& a : row)
      if (const auto of = meeting(a))
        ++absent[*of];
  std::vector<node> next;
  for (std::size_t r = 0; r < x.ranks.size(); ++r)
    next.push_back(graph.row_begin(r));
  std::vector<char> done(graph.size()), present(graph.size());
  const auto can_begin = [&](std::size_t r) {
    const auto needs = graph.needs_of(next[r], r);
    return std::all_of(
        needs.begin(), needs.end(), [&](const auto& need) { return done[need.of] != 0; });
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < next.size(); ++r)
      for (auto& n = next[r]; n < graph.row_end(r) && can_begin(r); moved = true) {
        const auto of = meeting(graph.at(n, r));
        if (of && !present[n]) {
          present[n] = 1;
          --absent[*of];
          moved = true;
        }
        if (of && absent[*of] > 0)
          break;
        done[n++] = 1;
      }
  }
  for (std::size_t r = 0; r < next.size(); ++r)
    if (next[r] < graph.row_end(r))
      return fmt::format("PLAN-9: rank {} waits forever at {}, whose meeting others do not reach",
                         r,
                         to_string(graph.at(next[r], r), x.copies));
  return "";
}

}  // namespace troupe::runtime

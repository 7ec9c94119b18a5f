#include "runtime/schedule/credits.hpp"

#include "runtime/schedule/plan_graph.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

/// What is at its maker, over time.
struct traffic {
  std::vector<std::pair<double, int>> changes;

  int peak() {
    // What is given back when another is asked for is there for it.
    std::sort(changes.begin(), changes.end());
    int now = 0, out = 0;
    for (const auto& [when, by] : changes)
      out = std::max(out, now += by);
    return out;
  }
};

}  // namespace

handoff_credits credits_of(const plan& x, const cost_model& by, int told) {
  const plan_graph graph(x);
  std::vector<traffic> activations(x.placement.size()), gradients(x.placement.size());
  const auto of = [&](const plan_graph::handoff& which) -> traffic& {
    return (which.gradient ? gradients : activations)[which.maker];
  };
  const auto seen = simulate(x, by);
  for (const auto& rank : seen.ranks)
    for (const auto& at : rank.actions) {
      if (const auto made = graph.made_by(at.what))
        of(*made).changes.emplace_back(at.begin, 1);
      if (const auto taken = graph.taken_by(at.what))
        of(*taken).changes.emplace_back(at.end, -1);
    }
  handoff_credits out;
  const auto count = [told](traffic& on) {
    if (on.changes.empty())
      return 0;
    return told > 0 ? told : on.peak() + credits_in_transit;
  };
  for (auto& on : activations)
    out.activations.push_back(count(on));
  for (auto& on : gradients)
    out.gradients.push_back(count(on));
  return out;
}

}  // namespace troupe::runtime

#include "runtime/schedule/credits.hpp"

#include "runtime/schedule/plan_graph.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

/// Results at their maker, over time.
struct traffic {
  std::vector<std::pair<double, int>> changes;

  int peak() {
    // At equal times returned credits come first, and are available at once.
    std::sort(changes.begin(), changes.end());
    int now = 0, out = 0;
    for (const auto& [when, by] : changes)
      out = std::max(out, now += by);
    return out;
  }
};

}  // namespace

std::vector<handoff> handoffs_of(const plan& x, const handoff_credits& credits) {
  std::vector<handoff> out;
  for (std::size_t maker = 0; maker < x.placement.size(); ++maker) {
    const auto copy = copy_id(std::uint32_t(maker / std::size_t(x.chunks)));
    const auto chunk = std::uint32_t(maker % std::size_t(x.chunks));
    const auto add = [&](int room, std::uint32_t to, bool gradient) {
      if (room > 0)
        out.push_back({.from = chunk_id(chunk),
                       .to = chunk_id(to),
                       .copy = copy,
                       .from_rank = x.rank_of(chunk_id(chunk), copy),
                       .to_rank = x.rank_of(chunk_id(to), copy),
                       .gradient = gradient,
                       .credits = room});
    };
    add(credits.activations[maker], chunk + 1, false);
    add(credits.gradients[maker], chunk - 1, true);
  }
  return out;
}

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

#include "runtime/model/recompute_plan.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

/// The segments of each layer.
std::vector<recompute_group> layers_of(const chunk& of) {
  std::vector<recompute_group> out;
  const auto& program = of.program();
  for (int s = 0; s < int(program.size()); ++s) {
    const auto& x = program[std::size_t(s)];
    if (x.layer < 0)
      continue;
    if (!out.empty() && x.unit == program[std::size_t(out.back().first)].unit)
      out.back().end = s + 1;
    else
      out.push_back({s, s + 1});
  }
  return out;
}

/// The module with which a segment of module x is recomputed. `other`: it is not recomputed.
recompute_module recomputed_with(recompute_module x, const recompute_settings& settings) {
  using enum recompute_module;
  switch (x) {
    case core_attention:
      return settings.core_attention ? x : other;
    case feed_forward:
      return settings.feed_forward ? x : other;
    case experts:
      return settings.experts ? x : other;
    case expert_activation:
      return settings.experts ? experts : settings.expert_activation ? x : other;
    case shared_experts:
      return settings.experts ? experts : settings.shared_experts ? x : other;
    case other:
      break;
  }
  return other;
}

/// Maximal runs of segments that are recomputed with one module.
std::vector<recompute_group> modules_of(const chunk& of, const recompute_settings& settings) {
  std::vector<recompute_group> out;
  const auto& program = of.program();
  auto last = recompute_module::other;
  for (int s = 0; s < int(program.size()); ++s) {
    const auto with = recomputed_with(program[std::size_t(s)].module, settings);
    if (with != recompute_module::other && with == last)
      out.back().end = s + 1;
    else if (with != recompute_module::other)
      out.push_back({s, s + 1});
    last = with;
  }
  return out;
}

}  // namespace

recompute_plan::recompute_plan(const chunk& of, const recompute_settings& settings) {
  const int segments = int(of.program().size());
  if (settings.granularity == recompute_granularity::selective)
    groups = modules_of(of, settings);
  if (settings.granularity == recompute_granularity::full) {
    const bool uniform = settings.method == recompute_method::uniform;
    const auto layers = layers_of(of);
    const auto each = std::size_t(uniform ? std::max(settings.layers, 1) : 1);
    const auto end = uniform ? layers.size()
                             : std::min(std::size_t(std::max(settings.layers, 0)), layers.size());
    for (std::size_t layer = 0; layer < end; layer += each)
      groups.push_back({layers[layer].first, layers[std::min(layer + each, end) - 1].end});
  }
  // A block ends with its recompute group and includes the segments before it.
  int begin = 0;
  for (const auto& group : groups) {
    blocks.push_back({begin, group.end, true});
    begin = group.end;
  }
  if (begin < segments || blocks.empty())
    blocks.push_back({begin, segments, false});
}

}  // namespace troupe::runtime

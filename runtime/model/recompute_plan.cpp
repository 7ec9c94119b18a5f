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

/// Maximal runs of segments of one module.
std::vector<recompute_group> module_of(const chunk& of, recompute_module which) {
  std::vector<recompute_group> out;
  const auto& program = of.program();
  for (int s = 0; s < int(program.size()); ++s) {
    if (program[std::size_t(s)].module != which)
      continue;
    if (!out.empty() && out.back().end == s)
      out.back().end = s + 1;
    else
      out.push_back({s, s + 1});
  }
  return out;
}

}  // namespace

recompute_plan::recompute_plan(const chunk& of, const recompute_settings& settings) {
  const int segments = int(of.program().size());
  if (settings.granularity == recompute_granularity::selective) {
    for (const auto& [wanted, which] :
         {std::pair{settings.core_attention, recompute_module::core_attention},
          std::pair{settings.feed_forward, recompute_module::feed_forward}}) {
      const auto found = module_of(of, which);
      if (wanted)
        groups.insert(groups.end(), found.begin(), found.end());
    }
    std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
      return a.first < b.first;
    });
  }
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

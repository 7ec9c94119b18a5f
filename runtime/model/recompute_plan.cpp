#include "runtime/model/recompute_plan.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

/// Segments of the layers [first, end), counted from the chunk's first layer.
recompute_group layers_of(const chunk& of, std::int64_t first, std::int64_t end) {
  recompute_group out{-1, -1};
  const auto& program = of.program();
  for (int s = 0; s < int(program.size()); ++s) {
    const auto layer = program[std::size_t(s)].layer - of.range().first;
    if (program[std::size_t(s)].layer < 0 || layer < first || layer >= end)
      continue;
    if (out.first < 0)
      out.first = s;
    out.end = s + 1;
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
  const auto layers = of.range().end - of.range().first;
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
    const std::int64_t each = uniform ? std::max(settings.layers, 1) : 1;
    const auto end = uniform ? layers : std::min<std::int64_t>(settings.layers, layers);
    for (std::int64_t layer = 0; layer < end; layer += each)
      groups.push_back(layers_of(of, layer, std::min(layer + each, end)));
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

#include "runtime/schedule/draw_rows.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace troupe::runtime {

std::vector<drawn_row> drawn_rows(const timeline& of) {
  std::vector<drawn_row> out;
  for (const auto& rank : of.ranks) {
    auto& row = out.emplace_back();
    std::vector<std::uint32_t> chunks[2];
    for (const auto& x : rank.actions) {
      auto& known = chunks[value(x.what.copy) == 0 ? 0 : 1];
      const auto c = value(x.what.chunk);
      if (const auto at = std::lower_bound(known.begin(), known.end(), c);
          at == known.end() || *at != c)
        known.insert(at, c);
    }
    row.shades = int(std::max({std::size_t{1}, chunks[0].size(), chunks[1].size()}));
    bool second = false;
    for (const auto& x : rank.actions) {
      const bool first = x.what.with_next;
      drawn_box box{x.begin, x.end, std::uint8_t(x.what.kind), 0, 0, x.what};
      box.half = first ? 1 : second ? 2 : 0;
      second = first;
      if (box.kind >= drawn_kinds.size() || !(x.end > x.begin))
        continue;
      const auto& known = chunks[value(x.what.copy) == 0 ? 0 : 1];
      box.shade = std::uint16_t(std::lower_bound(known.begin(), known.end(), value(x.what.chunk))
                                - known.begin());
      row.boxes.push_back(box);
    }
  }
  return out;
}

double last_end(const std::vector<drawn_timeline>& all) {
  double out = 0;
  for (const auto& x : all)
    out = std::max(out, x.what.makespan);
  return out;
}

std::string caption_of(const drawn_timeline& x) {
  return fmt::format("makespan {:.4g}{}{}, bubble {:.1f} %{}{}",
                     x.what.makespan,
                     x.unit.empty() ? "" : " ",
                     x.unit,
                     100 * x.what.bubble(),
                     x.note.empty() ? "" : "; ",
                     x.note);
}

}  // namespace troupe::runtime

#include "runtime/core/json_text.hpp"
#include "runtime/schedule/draw_rows.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace troupe::runtime {

std::string to_chrome_trace(const std::vector<drawn_timeline>& all) {
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  const char* separator = "\n";
  const auto add = [&](const nlohmann::json& event) {
    // Titles are user input: invalid UTF-8 is replaced.
    out += separator + json_text_replacing(event);
    separator = ",\n";
  };
  constexpr double microseconds = 1000;  // unit of the format
  for (std::size_t p = 0; p < all.size(); ++p) {
    add({{"ph", "M"}, {"pid", p}, {"name", "process_name"}, {"args", {{"name", all[p].title}}}});
    add({{"ph", "M"}, {"pid", p}, {"name", "process_sort_index"}, {"args", {{"sort_index", p}}}});
    for (std::size_t r = 0; r < all[p].what.ranks.size(); ++r) {
      const auto& rank = all[p].what.ranks[r];
      add({{"ph", "M"},
           {"pid", p},
           {"tid", r},
           {"name", "thread_name"},
           {"args", {{"name", fmt::format("rank {}", r)}}}});
      for (std::size_t i = 0; i < rank.actions.size(); ++i) {
        auto name = to_string(rank.actions[i].what, all[p].copies);
        const auto& x = rank.actions[i];
        const auto kind = std::size_t(x.what.kind);
        if (kind >= drawn_kinds.size())
          continue;
        // Spans of a thread must not overlap: a pair becomes one span with both names.
        if (x.what.with_next && i + 1 < rank.actions.size())
          name += " and " + to_string(rank.actions[++i].what, all[p].copies);
        add({{"ph", "X"},
             {"pid", p},
             {"tid", r},
             {"name", name},
             {"cat", std::string(drawn_kinds[kind].words)},
             {"ts", x.begin * microseconds},
             {"dur", (x.end - x.begin) * microseconds}});
      }
      for (const auto& [time, held] : rank.memory)
        add({{"ph", "C"},
             {"pid", p},
             {"name", fmt::format("held by rank {}", r)},
             {"ts", time * microseconds},
             {"args", {{"held", held}}}});
    }
  }
  return out + "\n]}\n";
}

}  // namespace troupe::runtime

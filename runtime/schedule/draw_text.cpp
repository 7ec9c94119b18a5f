#include "runtime/schedule/draw_rows.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace troupe::runtime {
namespace {

constexpr char idle = '.';
constexpr char pair = 'P';

struct cell {
  char text = idle;
  int colour = -1;  ///< one of the terminal's 256 colours
};

char letter_of(const drawn_box& box) {
  const bool small = box.shade > 0 || value(box.what.copy) != 0;
  const char letter = box.half != 0 ? pair : drawn_kinds[box.kind].letter;
  return small && box.half == 0 ? char(letter - 'A' + 'a') : letter;
}

/// The letter, the micro-batch if it fits completely, and dashes.
void write_box(std::vector<cell>& line, const drawn_box& box, std::size_t from, std::size_t to) {
  auto text = std::string(1, letter_of(box));
  const auto number = std::to_string(value(box.what.microbatch));
  if (box.half == 0 && text.size() + number.size() <= to - from)
    text += number;
  text.resize(to - from, '-');
  for (std::size_t i = from; i < to; ++i)
    line[i] = {text[i - from], drawn_kinds[box.kind].terminal};
}

std::vector<cell> line_of(const drawn_row& row, double columns_a_unit, std::size_t width) {
  std::vector<cell> line(width);
  std::vector<double> most(width, 0.5);  // a column is idle if at least half of it is
  for (const auto& box : row.boxes) {
    if (box.half == 2)
      continue;  // drawn by its partner
    const double begin = box.begin * columns_a_unit, end = box.end * columns_a_unit;
    const auto from = std::size_t(std::lround(begin));
    const auto to = std::min(width, std::size_t(std::lround(end)));
    if (end - begin >= 1 && from < to) {
      write_box(line, box, from, to);
      std::fill(most.begin() + std::ptrdiff_t(from), most.begin() + std::ptrdiff_t(to), 1.0);
      continue;
    }
    for (auto i = std::size_t(begin); i < width && double(i) < end; ++i) {
      const double share = std::min(end, double(i + 1)) - std::max(begin, double(i));
      if (share >= most[i] || (line[i].text == idle && share > 0.15)) {
        most[i] = std::max(share, 0.0);
        line[i] = {letter_of(box), drawn_kinds[box.kind].terminal};
      }
    }
  }
  return line;
}

}  // namespace

std::string to_text(const std::vector<drawn_timeline>& all, const text_settings& settings) {
  const double end = last_end(all);
  std::size_t ranks = 1;
  for (const auto& x : all)
    ranks = std::max(ranks, x.what.ranks.size());
  const auto label = std::to_string(ranks - 1).size() + 2;
  const auto width = std::max(std::size_t{10}, std::size_t(std::max(0, settings.width)) - label);
  const double scale = end > 0 ? double(width) / end : 0;
  std::string out;
  for (const auto& x : all) {
    out += fmt::format("{}: {}\n", x.title, caption_of(x));
    const auto rows = drawn_rows(x.what);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      out += fmt::format("{:>{}}  ", r, label - 2);
      int colour = -1;
      for (const auto& c : line_of(rows[r], scale, width)) {
        if (settings.colour && c.colour != colour)
          out += c.colour < 0 ? "\x1b[0m" : fmt::format("\x1b[48;5;{}m\x1b[38;5;16m", c.colour);
        colour = c.colour;
        out += c.text;
      }
      out += settings.colour && colour >= 0 ? "\x1b[0m\n" : "\n";
    }
  }
  return out;
}

}  // namespace troupe::runtime

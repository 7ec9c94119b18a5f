#include "runtime/watch/screen.hpp"

#include "runtime/core/progress.hpp"
#include "runtime/core/terminal_text.hpp"
#include "runtime/watch/screen_lines.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <tuple>
#include <utility>

namespace troupe::runtime {
namespace {

int columns_of(std::string_view text) {
  return int(std::ranges::count_if(text, [](char x) { return (x & 0xc0) != 0x80; }));
}

/// The first `most` columns of a text.
std::string cut(std::string_view text, int most) {
  std::size_t end = 0;
  for (int seen = 0; end < text.size(); ++end)
    if ((text[end] & 0xc0) != 0x80 && ++seen > most)
      break;
  return std::string(text.substr(0, end));
}

/// Removes control characters and line ends, because names come from other processes.
std::string on_one_line(std::string_view text) {
  auto out = without_control(text);
  std::ranges::replace_if(
      out, [](char x) { return x == '\n' || x == '\t'; }, ' ');
  return out;
}

/// Collects the texts of one page; cuts text that does not fit.
class canvas {
 public:
  explicit canvas(const screen_wish& how) : how_(how) {}

  void put(int row, int column, std::string_view text, screen_style style = screen_style::plain) {
    put(row, column, how_.columns - column, text, style);
  }
  void put(int row, int column, int most, std::string_view text, screen_style style) {
    if (row < 0 || row >= how_.rows || column < 0 || most <= 0)
      return;
    auto shown = cut(on_one_line(text), std::min(most, how_.columns - column));
    if (!shown.empty())
      out_.push_back({row, column, std::move(shown), style});
  }
  /// A line of a list. Its last column shows if it was cut.
  void put_line(int row, const screen_line& line) {
    const auto text = on_one_line(line.text);
    const bool is_cut = columns_of(text) > how_.columns;
    put(row, 0, is_cut ? cut(text, how_.columns - 1) + more() : text, line.style);
  }
  void rule(int row, std::string_view title) {
    const auto* const line = how_.ascii ? "-" : "─";
    std::string text = fmt::format("{}{} {} ", line, line, title);
    for (int i = columns_of(text); i < how_.columns; ++i)
      text += line;
    put(row, 0, text, screen_style::dim);
  }
  std::vector<screen_text> take() {
    std::ranges::stable_sort(out_, {}, [](const auto& x) { return std::pair(x.row, x.column); });
    return std::move(out_);
  }
  const screen_wish& how() const { return how_; }

 private:
  const char* more() const { return how_.ascii ? ">" : "…"; }

  const screen_wish& how_;
  std::vector<screen_text> out_;
};

std::string number_text(double x, const char* format) {
  return std::isfinite(x) ? fmt::format(fmt::runtime(format), x) : "-";
}

/// A share of 1 is "100". A share near the largest double has no finite percentage: "-".
std::string percent_text(double share) {
  return number_text(share * 100, "{:.0f}");
}

std::pair<std::string, screen_style> condition_of(const run_view& of) {
  if (of.exit_code)
    return *of.exit_code == 0
               ? std::pair<std::string, screen_style>("done", screen_style::good)
               : std::pair(fmt::format("ended, exit code {}", *of.exit_code), screen_style::bad);
  if (of.died)
    return {of.end_reason.empty() ? "died" : "died: " + of.end_reason, screen_style::bad};
  if (of.state.empty())
    return {of.iteration == 0 ? "starting" : "training", screen_style::good};
  if (of.state == "recovering")
    for (const auto& [name, one] : of.members)
      if (one.state == "dead" || one.state == "starting")
        return {"recovering: " + name + " is " + one.state, screen_style::caution};
  return {of.state,
          of.state == "recovering" || of.state == "paused" ? screen_style::caution
                                                           : screen_style::good};
}

void draw_head(const run_view& of, canvas& on) {
  on.put(0, 0, "troupe " + (of.name.empty() ? of.id : of.name), screen_style::bold);
  const auto [state, style] = condition_of(of);
  on.put(0, 30, 30, state, style);
  auto place = fmt::format("{}/{}", of.iteration, of.steps);
  if (const auto left = of.seconds_left(); left && !of.exit_code && !of.died)
    place += ", " + time_left_text(*left);
  on.put(0, std::max(30, on.how().columns - columns_of(place)), place, screen_style::bold);
  std::string line = fmt::format("loss {}  norm {}  lr {}  {} ms/step  {} tokens/s",
                                 number_text(of.loss, "{:.4f}"),
                                 number_text(of.grad_norm, "{:.3f}"),
                                 number_text(of.learning_rate, "{:.2e}"),
                                 number_text(of.step_ms, "{:.0f}"),
                                 number_text(of.tokens_per_second, "{:.0f}"));
  if (of.teraflops_per_second)
    line += "  " + number_text(*of.teraflops_per_second, "{:.3g}") + " TFLOP/s";
  if (of.share_of_matrix_rate)
    line += "  MFU " + percent_text(*of.share_of_matrix_rate) + " %";
  on.put(1, 0, line);
}

void draw_curve(const std::deque<view_point>& points,
                std::string_view title,
                const char* format,
                int row,
                int column,
                int columns,
                int rows,
                canvas& on) {
  if (points.empty()) {
    on.put(row, column, columns, fmt::format("{}: nothing yet", title), screen_style::dim);
    return;
  }
  const auto [low, high] = std::ranges::minmax(points, {}, &view_point::value);
  on.put(
      row,
      column,
      columns,
      fmt::format(
          "{}  {} to {}", title, number_text(low.value, format), number_text(high.value, format)),
      screen_style::dim);
  const auto lines = text_curve(points, columns - 1, rows - 1, on.how().ascii);
  for (std::size_t i = 0; i < lines.size(); ++i)
    on.put(row + 1 + int(i), column, columns, lines[i], screen_style::curve);
}

screen_style style_of(std::string_view action) {
  for (const char x : action) {
    if (x == 'F')
      return screen_style::forward;
    if (x == 'I' || x == 'B')
      return screen_style::backward;
    if (x == 'W')
      return screen_style::weights;
    if (x == 'R')
      return screen_style::recompute;
  }
  return screen_style::plain;
}

/// The letter that shows an action's kind in the timeline.
char letter_of(std::string_view action) {
  const auto at = action.find_first_of("FIBWR");
  return at == std::string_view::npos ? '?' : action[at];
}

void draw_row(const std::vector<view_action>& actions,
              double from,
              double span,
              int row,
              int column,
              int columns,
              canvas& on) {
  if (columns <= 0)
    return;
  // Each column shows the action that takes most of its time.
  std::vector<double> longest(std::size_t(columns), 0);
  std::string text(std::size_t(columns), '.');
  std::vector<screen_style> styles(std::size_t(columns), screen_style::dim);
  const double width = span / columns;
  for (const auto& x : actions) {
    const int first = int(std::clamp((x.begin_ms - from) / width, 0.0, columns - 1.0));
    const int last
        = std::max(first, int(std::clamp((x.end_ms - from) / width, 0.0, columns - 1.0)));
    for (int i = first; i <= last; ++i) {
      const double share
          = std::min(x.end_ms, from + (i + 1) * width) - std::max(x.begin_ms, from + i * width);
      if (share <= longest[std::size_t(i)])
        continue;
      longest[std::size_t(i)] = share;
      text[std::size_t(i)] = letter_of(x.name);
      styles[std::size_t(i)] = style_of(x.name);
    }
  }
  for (int begin = 0; begin < columns;) {
    int end = begin + 1;
    while (end < columns && styles[std::size_t(end)] == styles[std::size_t(begin)])
      ++end;
    on.put(row,
           column + begin,
           text.substr(std::size_t(begin), std::size_t(end - begin)),
           styles[std::size_t(begin)]);
    begin = end;
  }
}

void draw_timeline(const run_view& of, int row, int rows, canvas& on) {
  if (!of.timeline || of.timeline->rows.empty()) {
    on.rule(row, "pipeline: no timed step yet");
    return;
  }
  const auto& x = *of.timeline;
  on.rule(row,
          fmt::format("pipeline, iteration {}{}: {} ms (planned {}), bubble {} % (planned {} %)",
                      x.iteration,
                      x.left_out > 0 ? fmt::format(", without {} actions", x.left_out) : "",
                      number_text(x.executed_ms, "{:.1f}"),
                      number_text(x.planned_ms, "{:.1f}"),
                      percent_text(x.bubble),
                      percent_text(x.planned_bubble)));
  const double span = std::max({x.executed_ms, x.planned_ms, 1e-9});
  const bool has_plans = rows > 2 * int(x.rows.size());
  constexpr int label = 9;
  int at = row + 1;
  for (std::size_t i
       = std::size_t(std::max(0, on.how().page == screen_page::timeline ? on.how().scroll : 0));
       i < x.rows.size() && at + (has_plans ? 1 : 0) < row + rows;
       ++i) {
    const auto& one = x.rows[i];
    if (has_plans) {
      on.put(at, 0, label, fmt::format("{:3} plan", one.rank), screen_style::dim);
      draw_row(one.planned, 0, span, at++, label, on.how().columns - label, on);
    }
    on.put(at, 0, label, fmt::format("{:3} run", one.rank), screen_style::plain);
    draw_row(one.executed, 0, span, at++, label, on.how().columns - label, on);
  }
}

void draw_list(const std::vector<screen_line>& all,
               std::string_view title,
               int row,
               int rows,
               int scroll,
               canvas& on) {
  const int room = rows - 1;
  const int first = std::clamp(scroll, 0, std::max(0, int(all.size()) - room));
  on.rule(row,
          room > 0 && int(all.size()) > room ? fmt::format("{} {} to {} of {}",
                                                           title,
                                                           first + 1,
                                                           std::min(first + room, int(all.size())),
                                                           all.size())
                                             : std::string(title));
  for (int i = 0; i < room && first + i < int(all.size()); ++i)
    on.put_line(row + 1 + i, all[std::size_t(first + i)]);
}

/// The members for the overview. If not all fit, those that are well are left out: services and
/// lanes first, then the stages.
std::vector<screen_line> members_for(const run_view& of, double now, int rows) {
  auto out = lines_of_members(of, now);
  for (const bool with_stages : {true, false})
    if (int(out.size()) >= rows)
      std::erase_if(out, [&](const auto& x) {
        const auto begin = std::min(x.text.size(), x.text.find_first_not_of(' '));
        const bool is_well = x.style == screen_style::plain || x.style == screen_style::dim;
        const bool is_stage = x.text.compare(begin, 6, "stage:") == 0;
        return begin >= 4 && is_well && !(with_stages && is_stage);
      });
  return out;
}

/// The slow workers for the overview, in at most `rows` lines.
std::vector<screen_line> stragglers_for(const run_view& of, double now, int rows) {
  auto out = lines_of_stragglers(of, now);
  if (const int more = int(out.size()) - rows; more > 0) {
    out.resize(std::size_t(rows));
    out.back().text.insert(0, fmt::format("({} more) ", more));
  }
  return out;
}

/// The events for their page: long ones continue on further lines.
std::vector<screen_line> whole_events(const run_view& of, const screen_wish& how) {
  const int indent = how.columns > 60 ? 26 : 0;  // below the text of the first line
  const int room = std::max(1, how.columns - indent);
  std::vector<screen_line> out;
  for (const auto& x : lines_of_events(of, how.now)) {
    const std::string text = on_one_line(x.text);
    auto begin = cut(text, std::max(1, how.columns)).size();
    out.push_back({text.substr(0, begin), x.style});
    while (begin < text.size()) {
      const auto part = cut(std::string_view(text).substr(begin), room);
      out.push_back({std::string(std::size_t(indent), ' ') + part, x.style});
      begin += part.size();
    }
  }
  return out;
}

void draw_overview(const run_view& of, canvas& on) {
  const auto& how = on.how();
  const int room = how.rows - 3;  // without head and keys
  const int stages = of.timeline ? int(of.timeline->rows.size()) : 0;
  const int curves = std::clamp(room / 3, 2, 12);
  // Without plans if they do not fit.
  const int timeline
      = std::min(1 + 2 * stages <= room / 3 ? 1 + 2 * stages : 1 + stages, std::max(2, room / 3));
  const auto slow = stragglers_for(of, how.now, std::max(1, room / 6));
  const int members = std::max(2, (room - curves - timeline - int(slow.size())) * 2 / 3);
  const int half = how.columns / 2;
  draw_curve(of.losses, "loss", "{:.4f}", 2, 0, half, curves, on);
  draw_curve(of.speeds, "tokens/s", "{:.0f}", 2, half, how.columns - half, curves, on);
  draw_timeline(of, 2 + curves, timeline, on);
  int at = 2 + curves + timeline;
  for (const auto& x : slow)
    on.put_line(at++, x);
  draw_list(members_for(of, how.now, members), "processes", at, members, 0, on);
  at += members;
  if (at + 1 < how.rows)
    draw_list(lines_of_events(of, how.now), "events", at, how.rows - 1 - at, 0, on);
}

}  // namespace

std::vector<screen_text> draw(const run_view& of, const screen_wish& how) {
  canvas on(how);
  draw_head(of, on);
  const int room = how.rows - 3;
  switch (how.page) {
    case screen_page::overview:
      draw_overview(of, on);
      break;
    case screen_page::members:
      draw_list(lines_of_members(of, how.now), "processes", 2, room, how.scroll, on);
      break;
    case screen_page::timeline:
      draw_timeline(of, 2, room, on);
      break;
    case screen_page::events:
      draw_list(whole_events(of, how), "events", 2, room, how.scroll, on);
      break;
  }
  if (how.connection.empty())
    on.put(how.rows - 1, 0, how.keys, screen_style::dim);
  else
    on.put(how.rows - 1, 0, how.connection, screen_style::bad);
  return on.take();
}

int scroll_limit(const run_view& of, const screen_wish& how) {
  const int room = how.rows - 4;  // without head, rule and keys
  std::size_t lines = 0;
  if (how.page == screen_page::members)
    lines = lines_of_members(of, how.now).size();
  else if (how.page == screen_page::events)
    lines = whole_events(of, how).size();
  else if (how.page == screen_page::timeline && of.timeline)
    return std::max(0, int(of.timeline->rows.size()) - 1);
  return std::max(0, int(lines) - room);
}

std::string plain_text(const std::vector<screen_text>& page, const screen_wish& how) {
  std::vector<std::string> rows(std::size_t(how.rows));
  for (const auto& x : page) {
    auto& to = rows[std::size_t(x.row)];
    to.append(std::size_t(std::max(0, x.column - columns_of(to))), ' ');
    to += x.text;
  }
  std::string out;
  for (const auto& row : rows)
    out += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  return out;
}

std::vector<std::string> text_curve(const std::deque<view_point>& points,
                                    int columns,
                                    int rows,
                                    bool ascii) {
  std::vector<view_point> finite;
  std::ranges::copy_if(
      points, std::back_inserter(finite), [](const auto& x) { return std::isfinite(x.value); });
  if (columns <= 0 || rows <= 0 || finite.empty())
    return {};
  const int across = ascii ? columns : 2 * columns, down = ascii ? rows : 4 * rows;
  std::vector<unsigned> cells(std::size_t(columns) * std::size_t(rows), 0);
  const auto [low, high] = std::ranges::minmax(finite, {}, &view_point::value);
  const double first = double(finite.front().iteration),
               span = std::max(1.0, double(finite.back().iteration) - first);
  // Divides first, because the difference of two very large doubles overflows.
  const double half = high.value / 2 - low.value / 2, height = half > 0 ? half : 1;
  const auto place
      = [](double share, int room) { return int(std::clamp(share, 0.0, 1.0) * (room - 1)); };
  // Bits of the braille dots of a character, by column and row (Unicode 15, block 2800).
  static constexpr std::array<std::array<unsigned, 4>, 2> dots
      = {{{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};
  const auto mark = [&](int x, int y) {
    const auto cell = std::size_t(ascii ? y * columns + x : (y / 4) * columns + x / 2);
    cells[cell] |= ascii ? 1 : dots[std::size_t(x % 2)][std::size_t(y % 4)];
  };
  int before_x = -1, before_y = 0;
  for (const auto& p : finite) {
    const int x = place((double(p.iteration) - first) / span, across);
    const int y = place((high.value / 2 - p.value / 2) / height, down);
    if (before_x < 0)
      std::tie(before_x, before_y) = std::pair(x, y);
    // A line from the previous point, vertical parts in steep columns, so that it has no gaps.
    for (int i = std::min(before_x + 1, x), at = before_y; i <= x; ++i) {
      const int to = i == x ? y : before_y + (y - before_y) * (i - before_x) / (x - before_x);
      for (; at != to; at += at < to ? 1 : -1)
        mark(i, at);
      mark(i, to);
    }
    std::tie(before_x, before_y) = std::pair(x, y);
  }
  std::vector<std::string> out;
  out.resize(std::size_t(rows));
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column) {
      const auto bits = cells[std::size_t(row * columns + column)];
      if (ascii || bits == 0)
        out[std::size_t(row)] += bits != 0 ? '*' : ' ';
      else
        out[std::size_t(row)] += {char(0xe2), char(0xa0 | (bits >> 6)), char(0x80 | (bits & 0x3f))};
    }
  return out;
}

std::string bytes_text(std::uint64_t bytes) {
  static constexpr std::array units{"B", "kB", "MB", "GB", "TB", "PB"};
  double x = double(bytes);
  std::size_t unit = 0;
  for (; x >= 999.5 && unit + 1 < units.size(); ++unit)
    x /= 1000;
  return unit == 0 ? fmt::format("{} B", bytes)
                   : fmt::format("{:.{}f} {}", x, x < 9.95 ? 1 : 0, units[unit]);
}

}  // namespace troupe::runtime

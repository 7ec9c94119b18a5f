#include "runtime/schedule/draw_svg_panel.hpp"
#include "runtime/schedule/draw_svg_parts.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>

namespace troupe::runtime {
namespace {

/// A tick of 1, 2 or 5 times a power of ten, for eight to sixteen ticks per axis.
double tick_of(double length) {
  const double least = length / 16;
  double tick = std::pow(10, std::floor(std::log10(least)));
  for (const double by : {2.0, 2.5, 2.0})
    if (tick < least * (1 - 1e-9))
      tick *= by;
  return tick;
}

std::string axis(
    const svg_geometry& at, double end, double top, double bottom, const std::string& unit) {
  std::string out;
  const double tick = end > 0 ? tick_of(end) : 1;
  for (int i = 0; i * tick <= end * (1 + 1e-9); ++i) {
    const auto x = px(at.x(i * tick));
    fmt::format_to(std::back_inserter(out),
                   "<path d=\"M{} {}V{}\" stroke=\"#e6e6e6\" stroke-width=\"0.8\"/>\n"
                   "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"#444\">{:.6g}{}</text>\n",
                   x,
                   px(top),
                   px(bottom + 4),
                   x,
                   px(bottom + 17),
                   i * tick,
                   i == 0 && !unit.empty() ? " " + unit : "");
  }
  return out;
}

/// Breaks entries into lines; `end` returns the bottom.
class legend {
 public:
  legend(double width, double top) : width_(width), y_(top) {}

  void add(const std::string& sample, const std::string& words) {
    const double room = 24 + 6.3 * double(words.size());
    if (x_ + room > width_ - 8 && x_ > svg_geometry::left) {
      x_ = svg_geometry::left;
      y_ += 19;
    }
    fmt::format_to(std::back_inserter(out_),
                   "<g transform=\"translate({} {})\">{}<text x=\"22\" y=\"11\">{}</text></g>\n",
                   px(x_),
                   px(y_),
                   sample,
                   words);
    x_ += room + 16;
  }
  double end() const { return y_ + 19; }
  const std::string& text() const { return out_; }

 private:
  double width_, y_, x_ = svg_geometry::left;
  std::string out_;
};

std::string sample_of(const std::string& fill) {
  return fmt::format("<path fill=\"{}\" d=\"M0 0h16v13h-16z\"/>", fill);
}

legend legend_of(const std::vector<svg_panel>& panels,
                 const svg_geometry& at,
                 double top,
                 bool memory) {
  legend out(at.width, top);
  bool seen[drawn_kinds.size()] = {}, copies = false, pairs = false, columns = false;
  int shades = 1;
  for (const auto& p : panels) {
    columns = columns || p.in_columns();
    for (const auto& row : p.rows()) {
      shades = std::max(shades, row.shades);
      for (const auto& box : row.boxes) {
        seen[box.kind] = true;
        copies = copies || (value(box.what.copy) != 0 && !p.in_columns());
        pairs = pairs || (box.half != 0 && !p.in_columns());
      }
    }
  }
  for (std::size_t k = 0; k < drawn_kinds.size(); ++k)
    if (seen[k])
      out.add(sample_of(std::string(drawn_kinds[k].colour)),
              fmt::format("{}: {}", drawn_kinds[k].letter, drawn_kinds[k].words));
  if (shades > 1) {
    std::string sample;
    const double width = 16.0 / shades;
    for (int s = 0; s < shades; ++s)
      sample += fmt::format("<path fill=\"{}\" d=\"M{} 0h{}v13h{}z\"/>",
                            fill_of(0, s, shades).text(),
                            px(s * width),
                            px(width),
                            px(-width));
    out.add(sample, "later chunks of a rank are lighter");
  }
  if (copies)
    out.add(sample_of(std::string(drawn_kinds[0].colour)) + sample_of("url(#second)"),
            "second copy of the model");
  const auto two = [](int below, int above, const char* form) {
    return fmt::format(fmt::runtime(form),
                       drawn_kinds[std::size_t(below)].colour,
                       drawn_kinds[std::size_t(above)].colour);
  };
  if (pairs)
    out.add(two(0,
                1,
                "<path fill=\"{}\" d=\"M0 0h16v6h-16z\"/>"
                "<path fill=\"{}\" d=\"M0 7h16v6h-16z\"/>"),
            "a pair that overlaps");
  if (memory)
    out.add(sample_of("#b9bec6"), "held, and its peak");
  if (columns)
    out.add(two(0,
                3,
                "<path fill=\"{}\" d=\"M0 8h16v5h-16z\"/>"
                "<path fill=\"{}\" d=\"M0 3h16v5h-16z\"/>"),
            "too short to draw one by one: share of the time per kind");
  return out;
}

}  // namespace

std::string to_svg(const std::vector<drawn_timeline>& all, const drawing_settings& settings) {
  const double end = last_end(all);
  std::size_t rows = 0, actions = 0;
  for (const auto& x : all) {
    rows += x.what.ranks.size();
    for (const auto& rank : x.what.ranks)
      actions += rank.actions.size();
  }
  svg_geometry at{double(std::max(300, settings.width)), 0, 0, 0, 0};
  at.scale = end > 0 ? at.plot() / end : 0;
  at.row = std::clamp(640 / double(std::max<std::size_t>(1, rows)), 9.0, 26.0);
  at.space = at.row > 14 ? 5 : 2;
  at.memory = settings.memory ? std::max(8.0, at.row * 0.6) : 0;

  // Tooltips only in drawings that are small enough for them.
  const bool named = actions <= 4000;
  std::vector<svg_panel> panels;
  std::vector<double> tops;
  double y = 6;
  for (const auto& x : all) {
    y += 30;
    tops.push_back(y);
    panels.emplace_back(x, at, y, named);
    y += double(x.what.ranks.size()) * at.step() + 4;
  }
  const double bottom = y - 4;
  const auto keys = legend_of(panels, at, bottom + 30, settings.memory);
  const double height = keys.end() + 4;

  auto out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11.5\">\n"
      "<defs><pattern id=\"second\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\"><path d=\"M0 0v5\" stroke=\"#fff\" stroke-width=\"2.4\" "
      "stroke-opacity=\"0.4\"/></pattern></defs>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
      px(at.width),
      px(height));
  out += axis(
      at, end, tops.empty() ? y : tops.front(), bottom, all.empty() ? "" : all.front().unit);
  for (std::size_t i = 0; i < panels.size(); ++i) {
    out += fmt::format(
        "<text x=\"{}\" y=\"{}\" font-size=\"14\"><tspan font-weight=\"bold\">{}</tspan>"
        "<tspan dx=\"12\" fill=\"#555\" font-size=\"12.5\">{}</tspan></text>\n",
        px(svg_geometry::left),
        px(tops[i] - 9),
        escaped(all[i].title),
        escaped(caption_of(all[i])));
    out += panels[i].text();
  }
  return out + keys.text() + "</svg>\n";
}

}  // namespace troupe::runtime

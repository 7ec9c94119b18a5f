#include "runtime/telemetry/plot.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>

namespace troupe::runtime {
namespace {

constexpr double width = 860, plot_height = 500;
constexpr double left = 76, right = 28, top = 52, bottom = 60;
constexpr double inner_width = width - left - right, inner_height = plot_height - top - bottom;

// Source: Okabe and Ito, "Color Universal Design", 2008; distinguishable for colour-blind readers.
// Without yellow.
constexpr const char* colours[]
    = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000"};

constexpr const char* colour_of(int number) {
  return colours[std::size_t(number) % std::size(colours)];
}

/// When all colours are used, further curves also differ by their dashes.
const char* dashes_of(const curve& c, int number) {
  if (c.marked)
    return "5 4";
  constexpr const char* of_round[] = {"", "12 4", "2 3", "12 4 2 4"};
  return of_round[std::size_t(number) / std::size(colours) % std::size(of_round)];
}

std::string stroke(const curve& c, int number) {
  const std::string dashes = dashes_of(c, number);
  return fmt::format("stroke=\"{}\" stroke-width=\"{}\"{}{}",
                     colour_of(number),
                     c.pale ? 1.0 : 1.8,
                     c.pale ? " stroke-opacity=\"0.25\"" : "",
                     dashes.empty() ? "" : " stroke-dasharray=\"" + dashes + "\"");
}

int number_of(const std::vector<curve>& curves, std::size_t i) {
  return curves[i].colour >= 0 ? curves[i].colour : int(i);
}

struct interval {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void take(double x) {
    low = std::min(low, x);
    high = std::max(high, x);
  }
  double share(double x) const { return (x - low) / (high - low); }
};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= ' ')
          out += c;
    }
  return out;
}

struct frame {
  interval x, y;
  bool logarithmic = false;  ///< then y is a logarithm

  bool can_draw(const curve_point& p) const {
    return std::isfinite(p.x) && std::isfinite(p.y) && (!logarithmic || p.y > 0);
  }
  double scaled(double v) const { return logarithmic ? std::log10(v) : v; }
  double at_x(double v) const { return left + x.share(v) * inner_width; }
  double at_y(double v) const { return top + (1 - y.share(scaled(v))) * inner_height; }
};

/// Reduces a curve to two points per pixel column, the extreme ones in order.
std::vector<curve_point> thinned(const curve& from, const frame& f) {
  std::vector<curve_point> in, out;
  std::copy_if(from.points.begin(), from.points.end(), std::back_inserter(in), [&](const auto& p) {
    return f.can_draw(p);
  });
  if (in.size() <= 2 * std::size_t(inner_width))
    return in;
  std::map<long, std::pair<curve_point, curve_point>> columns;  // (lowest, highest)
  for (const auto& p : in) {
    const auto [at, fresh] = columns.try_emplace(std::lround(f.x.share(p.x) * inner_width), p, p);
    if (!fresh && p.y < at->second.first.y)
      at->second.first = p;
    if (!fresh && p.y > at->second.second.y)
      at->second.second = p;
  }
  for (auto& [column, both] : columns) {
    if (both.second.x < both.first.x)
      std::swap(both.first, both.second);
    out.push_back(both.first);
    out.push_back(both.second);
  }
  return out;
}

std::string text_at(double x, double y, const char* anchor, int size, const std::string& what) {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\">{}</text>\n",
      x,
      y,
      anchor,
      size,
      escaped(what));
}

std::string line(double x1, double y1, double x2, double y2, const char* colour) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n",
      x1,
      y1,
      x2,
      y2,
      colour);
}

frame frame_of(const std::vector<curve>& curves, bool logarithmic) {
  frame out;
  out.logarithmic = logarithmic;
  for (const auto& c : curves)
    for (const auto& p : c.points)
      if (out.can_draw(p)) {
        out.x.take(p.x);
        out.y.take(out.scaled(p.y));
      }
  for (auto* side : {&out.x, &out.y}) {
    if (!(side->low <= side->high))
      *side = {0, 1};
    if (side->low == side->high)
      *side = {side->low - 0.5, side->high + 0.5};
  }
  const double air = 0.04 * (out.y.high - out.y.low);
  out.y = {out.y.low - air, out.y.high + air};
  return out;
}

std::vector<double> ticks_of_y(const frame& f) {
  if (!f.logarithmic)
    return round_ticks(f.y.low, f.y.high, 7);
  return logarithmic_ticks(std::pow(10.0, f.y.low), std::pow(10.0, f.y.high));
}

bool continues_a_letter(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

std::size_t letters_of(const std::string& text) {
  return text.size() - std::size_t(std::count_if(text.begin(), text.end(), continues_a_letter));
}

/// Byte offset of the nth letter.
std::size_t begin_of(const std::string& text, std::size_t nth) {
  std::size_t at = 0;
  for (; at < text.size(); ++at)
    if (!continues_a_letter(text[at]) && nth-- == 0)
      break;
  return at;
}

/// Shortens a text in the middle to `most` letters.
std::string shortened(const std::string& text, std::size_t most) {
  const auto letters = letters_of(text);
  if (letters <= most)
    return text;
  const auto head = (most - 1) / 2, tail = most - 1 - head;
  return text.substr(0, begin_of(text, head)) + "\u2026"
         + text.substr(begin_of(text, letters - tail));
}

std::string axes(const frame& f, const plot_text& text) {
  constexpr const char *grid = "#e6e6e6", *ink = "#444444";
  std::string out;
  for (const auto v : round_ticks(f.x.low, f.x.high, 8)) {
    out += line(f.at_x(v), top, f.at_x(v), top + inner_height, grid);
    out += text_at(f.at_x(v), top + inner_height + 20, "middle", 12, fmt::format("{:.6g}", v));
  }
  for (const auto v : ticks_of_y(f)) {
    out += line(left, f.at_y(v), left + inner_width, f.at_y(v), grid);
    out += text_at(left - 8, f.at_y(v) + 4, "end", 12, fmt::format("{:.4g}", v));
  }
  out += line(left, top + inner_height, left + inner_width, top + inner_height, ink);
  out += line(left, top, left, top + inner_height, ink);
  out += text_at(left + inner_width / 2, plot_height - 16, "middle", 13, text.x_label);
  out += fmt::format(
      "<text transform=\"translate(20 {:.1f}) rotate(-90)\" text-anchor=\"middle\" "
      "font-size=\"13\">{}</text>\n",
      top + inner_height / 2,
      escaped(text.y_label));
  return out
         + text_at(left, 30, "start", 16, shortened(text.title, std::size_t(inner_width / 9.5)));
}

std::string drawn(const curve& c, const frame& f, int number) {
  const auto points = thinned(c, f);
  std::string path, dots;
  for (const auto& p : points) {
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", f.at_x(p.x), f.at_y(p.y));
    if (c.marked || points.size() == 1)
      dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n",
                          f.at_x(p.x),
                          f.at_y(p.y),
                          colour_of(number));
  }
  return fmt::format("<path d=\"{}\" fill=\"none\" {} stroke-linejoin=\"round\"/>\n{}",
                     path,
                     stroke(c, number),
                     dots);
}

constexpr double label_row = 15;

constexpr const char* mark_ink = "#b00020";

std::string line_of(const plot_mark& mark, const frame& f) {
  return fmt::format(
      "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\" "
      "stroke-dasharray=\"3 3\"/>\n",
      f.at_x(mark.x),
      top,
      top + inner_height,
      mark_ink);
}

/// Right of its line, or left of it near the right edge; with a white outline over other lines.
std::string label_of(const plot_mark& mark, const frame& f, int row) {
  const double x = f.at_x(mark.x);
  const bool near_edge = x > left + 0.7 * inner_width;
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"11\" fill=\"{}\" "
      "stroke=\"white\" stroke-width=\"4\" paint-order=\"stroke\">{}</text>\n",
      x + (near_edge ? -6 : 6),
      top + label_row * (row + 1),
      near_edge ? "end" : "start",
      mark_ink,
      escaped(shortened(mark.label, 60)));
}

/// Marks outside the frame are omitted. Labels come after all lines, which would cross them.
std::string drawn(const std::vector<plot_mark>& marks, const frame& f) {
  std::string lines, labels;
  int row = 0;
  for (const auto& mark : marks) {
    if (mark.x < f.x.low || mark.x > f.x.high)
      continue;
    lines += line_of(mark, f);
    if (!mark.label.empty())
      labels += label_of(mark, f, row++);
  }
  return lines + labels;
}

/// An entry of the legend and its place below the plot.
struct legend_entry {
  std::size_t curve;
  std::string label;
  double x = 0;
  int row = 0;
};

constexpr double letter = 7.2, legend_row = 20, sample = 28, gap = 8, between = 22;

std::vector<legend_entry> legend_of(const std::vector<curve>& curves) {
  std::vector<legend_entry> out;
  double x = left;
  int row = 0;
  const auto longest = std::size_t((inner_width - sample - gap) / letter);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    if (curves[i].label.empty())
      continue;
    const auto label = shortened(curves[i].label, longest);
    const double wide = sample + gap + letter * double(letters_of(label));
    if (x > left && x + wide > left + inner_width) {
      x = left;
      ++row;
    }
    out.push_back({i, label, x, row});
    x += wide + between;
  }
  if (out.size() == 1)
    out.clear();
  return out;
}

std::string drawn(const legend_entry& at, const std::vector<curve>& curves) {
  const double y = plot_height + legend_row * (at.row + 0.5);
  const auto& c = curves[at.curve];
  const int number = number_of(curves, at.curve);
  auto out = fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n",
                         at.x,
                         y,
                         at.x + sample,
                         y,
                         stroke(c, number));
  if (c.marked)
    out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n",
                       at.x + sample / 2,
                       y,
                       colour_of(number));
  return out + text_at(at.x + sample + gap, y + 4, "start", 12, at.label);
}

}  // namespace

std::vector<curve_point> smoothed(const std::vector<curve_point>& points, int window) {
  std::vector<curve_point> out, in;
  std::copy_if(points.begin(), points.end(), std::back_inserter(in), [](const auto& p) {
    return std::isfinite(p.y);
  });
  std::vector<double> before = {0};  // prefix sums
  for (const auto& p : in)
    before.push_back(before.back() + p.y);
  const auto half = std::size_t(window) / 2;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto first = i < half ? 0 : i - half;
    const auto end = std::min(first + std::size_t(window) - (i < half ? half - i : 0), in.size());
    out.push_back({in[i].x, (before[end] - before[first]) / double(end - first)});
  }
  return out;
}

std::vector<double> logarithmic_ticks(double low, double high) {
  constexpr std::size_t many = 12;
  std::vector<double> fine, coarse;
  for (double ten = std::pow(10.0, std::floor(std::log10(low))); ten <= high; ten *= 10)
    for (const double round : {1.0, 2.0, 5.0})
      if (const double v = round * ten; v >= low && v <= high) {
        fine.push_back(v);
        if (round == 1.0)
          coarse.push_back(v);
      }
  if (fine.size() < 2)
    return round_ticks(low, high, 7);
  return fine.size() > many ? coarse : fine;
}

std::vector<double> round_ticks(double low, double high, int count) {
  const double rough = (high - low) / count;
  const double ten = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * ten;
  for (const double round : {1.0, 2.0, 5.0})
    if (round * ten >= rough * (1 - 1e-9)) {
      step = round * ten;
      break;
    }
  std::vector<double> out;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i)
    out.push_back(i * step + 0.0);  // + 0.0 avoids -0
  return out;
}

std::string svg_plot(const plot_text& text,
                     const std::vector<curve>& curves,
                     const std::vector<plot_mark>& marks) {
  const auto f = frame_of(curves, text.logarithmic);
  const auto entries = legend_of(curves);
  const double height
      = plot_height + (entries.empty() ? 0 : legend_row * (entries.back().row + 1.5));
  auto out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"Helvetica, Arial, sans-serif\" fill=\"#222222\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      width,
      height);
  out += axes(f, text);
  for (const bool pale : {true, false})
    for (std::size_t i = 0; i < curves.size(); ++i)
      if (curves[i].pale == pale)
        out += drawn(curves[i], f, number_of(curves, i));
  out += drawn(marks, f);
  for (const auto& x : entries)
    out += drawn(x, curves);
  return out + "</svg>\n";
}

}  // namespace troupe::runtime

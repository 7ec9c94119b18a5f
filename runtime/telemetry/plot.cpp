#include "runtime/telemetry/plot.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>

namespace troupe::runtime {
namespace {

constexpr double width = 860, height = 500;
constexpr double left = 76, right = 28, top = 52, bottom = 60;
constexpr double inner_width = width - left - right, inner_height = height - top - bottom;

// Okabe and Ito: "Color Universal Design", 2008: told apart by everybody, without yellow.
constexpr const char* colours[]
    = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000"};

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

bool drawable(const curve_point& p) {
  return std::isfinite(p.x) && std::isfinite(p.y);
}

/// As drawn: at most two points a column of pixels, the extreme ones in their order.
std::vector<curve_point> thinned(const curve& from, const interval& along) {
  std::vector<curve_point> in, out;
  std::copy_if(from.points.begin(), from.points.end(), std::back_inserter(in), drawable);
  if (in.size() <= 2 * std::size_t(inner_width))
    return in;
  std::map<long, std::pair<curve_point, curve_point>> columns;  // lowest, highest
  for (const auto& p : in) {
    const auto [at, fresh] = columns.try_emplace(std::lround(along.share(p.x) * inner_width), p, p);
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

struct frame {
  interval x, y;

  double at_x(double v) const { return left + x.share(v) * inner_width; }
  double at_y(double v) const { return top + (1 - y.share(v)) * inner_height; }
};

frame frame_of(const std::vector<curve>& curves) {
  frame out;
  for (const auto& c : curves)
    for (const auto& p : c.points)
      if (drawable(p)) {
        out.x.take(p.x);
        out.y.take(p.y);
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

std::string axes(const frame& f, const plot_text& text) {
  constexpr const char *grid = "#e6e6e6", *ink = "#444444";
  std::string out;
  for (const auto v : round_ticks(f.x.low, f.x.high, 8)) {
    out += line(f.at_x(v), top, f.at_x(v), top + inner_height, grid);
    out += text_at(f.at_x(v), top + inner_height + 20, "middle", 12, fmt::format("{:.6g}", v));
  }
  for (const auto v : round_ticks(f.y.low, f.y.high, 7)) {
    out += line(left, f.at_y(v), left + inner_width, f.at_y(v), grid);
    out += text_at(left - 8, f.at_y(v) + 4, "end", 12, fmt::format("{:.4g}", v));
  }
  out += line(left, top + inner_height, left + inner_width, top + inner_height, ink);
  out += line(left, top, left, top + inner_height, ink);
  out += text_at(left + inner_width / 2, height - 16, "middle", 13, text.x_label);
  out += fmt::format(
      "<text transform=\"translate(20 {:.1f}) rotate(-90)\" text-anchor=\"middle\" "
      "font-size=\"13\">{}</text>\n",
      top + inner_height / 2,
      escaped(text.y_label));
  return out + text_at(left, 30, "start", 16, text.title);
}

std::string drawn(const curve& c, const frame& f, const char* colour) {
  const auto points = thinned(c, f.x);
  std::string path, dots;
  for (const auto& p : points) {
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", f.at_x(p.x), f.at_y(p.y));
    if (c.marked || points.size() == 1)
      dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n",
                          f.at_x(p.x),
                          f.at_y(p.y),
                          colour);
  }
  return fmt::format(
      "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" "
      "stroke-linejoin=\"round\"/>\n{}",
      path,
      colour,
      dots);
}

std::string legend(const std::vector<curve>& curves) {
  constexpr double letter = 6.8, row = 20, sample = 24, edge = 10;
  std::size_t longest = 0;
  for (const auto& c : curves)
    longest = std::max(longest, c.label.size());
  const double box = sample + 3 * edge + letter * double(longest);
  const double x = left + inner_width - box - 8, y = top + 8;
  auto out = fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"white\" "
      "fill-opacity=\"0.85\" stroke=\"#cccccc\"/>\n",
      x,
      y,
      box,
      row * double(curves.size()) + edge);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const double at = y + edge / 2 + row * (double(i) + 0.5);
    const auto* const colour = colours[i % std::size(colours)];
    out += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
        "stroke-width=\"2\"/>\n",
        x + edge,
        at,
        x + edge + sample,
        at,
        colour);
    out += text_at(x + 2 * edge + sample, at + 4, "start", 12, curves[i].label);
  }
  return out;
}

}  // namespace

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
    out.push_back(i * step);
  return out;
}

std::string svg_plot(const plot_text& text, const std::vector<curve>& curves) {
  const auto f = frame_of(curves);
  auto out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"Helvetica, Arial, sans-serif\" fill=\"#222222\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      width,
      height);
  out += axes(f, text);
  for (std::size_t i = 0; i < curves.size(); ++i)
    out += drawn(curves[i], f, colours[i % std::size(colours)]);
  if (curves.size() > 1)
    out += legend(curves);
  return out + "</svg>\n";
}

}  // namespace troupe::runtime

#include "runtime/schedule/draw_svg_panel.hpp"

#include "runtime/schedule/draw_svg_parts.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr double column = 3;  ///< pixels; used if boxes are too thin

}  // namespace

svg_panel::svg_panel(const drawn_timeline& of, const svg_geometry& at, double top, bool named)
    : of_(of), rows_(drawn_rows(of.what)), at_(at), top_(top), named_(named) {
  std::vector<double> lengths;
  for (const auto& row : rows_)
    for (const auto& box : row.boxes) {
      lengths.push_back((box.end - box.begin) * at.scale);
      digits_ = std::max(digits_, std::to_string(value(box.what.microbatch)).size());
    }
  if (!lengths.empty()) {
    const auto middle = lengths.begin() + std::ptrdiff_t(lengths.size() / 2);
    std::nth_element(lengths.begin(), middle, lengths.end());
    in_columns_ = *middle < 1.2;
  }
}

std::string svg_panel::text() const {
  std::string out = labels();
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    out += in_columns_ ? columns(rows_[r], y(r)) : boxes(rows_[r], y(r), r);
    if (at_.memory > 0)
      out += memory(of_.what.ranks[r], y(r) + at_.row + 2);
  }
  return out;
}

std::string svg_panel::labels() const {
  std::string out;
  // Labels of ranks at least 13 pixels apart.
  const auto every = std::size_t(std::max(1.0, std::ceil(13 / at_.step())));
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const double base = y(r) + at_.row;
    fmt::format_to(std::back_inserter(out),
                   "<path d=\"M{} {}h{}\" stroke=\"#d5d5d5\" stroke-width=\"0.6\"/>\n",
                   px(at_.left),
                   px(base + 0.5),
                   px(at_.plot()));
    if (r % every == 0)
      fmt::format_to(std::back_inserter(out),
                     "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">rank {}</text>\n",
                     px(at_.left - 8),
                     px(y(r) + at_.row / 2 + 4),
                     r);
  }
  return out;
}

std::string svg_panel::boxes(const drawn_row& row, double top, std::size_t rank) const {
  std::string out, numbers, light_numbers;
  box_set solid, hatched;
  for (const auto& box : row.boxes) {
    const auto fill = fill_of(box.kind, box.shade, row.shades);
    const double height = box.half == 0 ? at_.row : at_.row / 2;
    const double x = at_.x(box.begin), width = (box.end - box.begin) * at_.scale;
    const double y = top + (box.half == 2 ? height : 0);
    // A thin white gap between neighbours, if there is space for it.
    const double hair = width > 3 ? 0.6 : 0;
    const double inner = box.half == 0 ? height : height - 0.3;
    const double shown = std::max(0.05, width - hair), first = box.half == 2 ? y + 0.3 : y;
    if (named_)
      fmt::format_to(
          std::back_inserter(out),
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"><title>rank {}: {}, "
          "{:.4g} to {:.4g}</title></rect>\n",
          px(x),
          px(first),
          px(shown),
          px(inner),
          fill.text(),
          rank,
          to_string(box.what, of_.copies),
          box.begin,
          box.end);
    else
      solid.add(fill.text(), x, first, shown, inner);
    if (value(box.what.copy) != 0)
      hatched.add("url(#second)", x, first, shown, inner);
    const auto number = std::to_string(value(box.what.microbatch));
    const double size = std::min(11.0, height - 1);
    if (size >= 7 && width - 2 >= 0.6 * size * double(digits_))
      fmt::format_to(std::back_inserter(fill.is_dark() ? light_numbers : numbers),
                     "<text x=\"{}\" y=\"{}\" font-size=\"{}\">{}</text>\n",
                     px(x + (width - hair) / 2),
                     px(y + height / 2 + 0.36 * size),
                     px(size),
                     number);
  }
  out += solid.text() + hatched.text();
  if (!numbers.empty())
    out += "<g text-anchor=\"middle\" fill=\"#1c1c1c\">\n" + numbers + "</g>\n";
  if (!light_numbers.empty())
    out += "<g text-anchor=\"middle\" fill=\"#fff\">\n" + light_numbers + "</g>\n";
  return out;
}

std::string svg_panel::columns(const drawn_row& row, double top) const {
  const auto count = std::size_t(std::ceil(at_.plot() / column));
  const auto colours = drawn_kinds.size() * std::size_t(row.shades);
  std::vector<double> share(count * colours);
  for (const auto& box : row.boxes) {
    const double weight = box.half == 0 ? 1 : 0.5;
    const double from = box.begin * at_.scale / column, to = box.end * at_.scale / column;
    for (auto i = std::size_t(from); i < count && double(i) < to; ++i)
      share[i * colours + box.kind * std::size_t(row.shades) + box.shade]
          += weight * (std::min(to, double(i + 1)) - std::max(from, double(i)));
  }
  box_set boxes;
  const auto at = [&](std::size_t i, std::size_t c) { return share[i * colours + c]; };
  for (std::size_t i = 0; i < count;) {
    std::size_t end = i + 1;
    const auto alike = [&] {
      for (std::size_t c = 0; c < colours; ++c)
        if (std::abs(at(i, c) - at(end, c)) * at_.row > 0.6)
          return false;
      return true;
    };
    while (end < count && alike())
      ++end;
    double base = top + at_.row;
    for (std::size_t c = 0; c < colours; ++c) {
      const double height = at(i, c) * at_.row;
      if (height < 0.05)
        continue;
      base -= height;
      const int kind = int(c) / row.shades, shade = int(c) % row.shades;
      boxes.add(fill_of(kind, shade, row.shades).text(),
                at_.left + double(i) * column,
                base,
                double(end - i) * column,
                height);
    }
    i = end;
  }
  return boxes.text();
}

std::string svg_panel::memory(const rank_timeline& rank, double top) const {
  double most = 0;
  for (const auto& of : of_.what.ranks)
    most = std::max(most, of.peak_memory);
  if (most <= 0 || rank.memory.empty())
    return {};
  std::vector<std::pair<double, double>> points;  // pixel, memory from there on
  for (const auto& [time, held] : rank.memory) {
    const double x = in_columns_ ? std::round(at_.x(time)) : std::round(at_.x(time) * 4) / 4;
    if (!points.empty() && points.back().first == x)
      points.back().second = std::max(points.back().second, held);
    else
      points.emplace_back(x, held);
  }
  const double base = top + at_.memory;
  std::string out = fmt::format("<path fill=\"#b9bec6\" d=\"M{} {}", px(points[0].first), px(base));
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double end = i + 1 < points.size() ? points[i + 1].first : at_.x(rank.last_end);
    fmt::format_to(std::back_inserter(out),
                   "V{}H{}",
                   px(base - at_.memory * points[i].second / most),
                   px(end));
  }
  return out
         + fmt::format(
             "V{}z\"/>\n<text x=\"{}\" y=\"{}\" font-size=\"{}\" "
             "fill=\"#5a5a5a\">{:.3g}</text>\n",
             px(base),
             px(at_.left + at_.plot() + 5),
             px(base),
             px(std::min(11.0, at_.memory + 2)),
             rank.peak_memory);
}

}  // namespace troupe::runtime

// Curves as an SVG picture, without any library.

#pragma once

#include <string>
#include <vector>

namespace troupe::runtime {

struct curve_point {
  double x = 0;
  double y = 0;
};

struct curve {
  std::string label;                ///< UTF-8; empty: no legend entry
  std::vector<curve_point> points;  ///< ascending x
  bool marked = false;              ///< for few points: dots and dashed lines
  int colour = -1;    ///< curves with the same number share a colour; negative: a colour of its own
  bool pale = false;  ///< drawn faintly behind the others
};

/// A vertical line with a label at its upper end.
struct plot_mark {
  double x = 0;
  std::string label;  ///< UTF-8; empty: the line alone
};

struct plot_text {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool logarithmic = false;  ///< y axis; points with y <= 0 are omitted
};

/// One white page with axes, ticks at round numbers and a light grid. With several curves, a legend
/// below. Labels that are longer than the page are shortened in the middle. Points that are not
/// finite are omitted. Curves with very many points are reduced to the lowest and highest point per
/// pixel column. Labels of marks stand one below the other; marks outside the curves are omitted.
std::string svg_plot(const plot_text& text,
                     const std::vector<curve>& curves,
                     const std::vector<plot_mark>& marks = {});

/// Round numbers that divide [low, high] into about `count` parts; requires low < high.
std::vector<double> round_ticks(double low, double high, int count);

/// 1, 2 and 5 times powers of ten in [low, high]; only powers of ten if those are many; round_ticks
/// if there are fewer than two. Requires 0 < low < high.
std::vector<double> logarithmic_ticks(double low, double high);

/// Moving average over `window` points around each point; fewer at the ends.
std::vector<curve_point> smoothed(const std::vector<curve_point>& points, int window);

}  // namespace troupe::runtime

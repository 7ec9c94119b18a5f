// Curves as a picture: SVG, written without any library.

#pragma once

#include <string>
#include <vector>

namespace troupe::runtime {

struct curve_point {
  double x = 0;
  double y = 0;
};

struct curve {
  std::string label;                ///< UTF-8; empty: not in the legend
  std::vector<curve_point> points;  ///< ascending x
  bool marked = false;              ///< few points: a dot on each, and dashes between them
  int colour = -1;                  ///< curves of one thing share a number; below 0: its own
  bool pale = false;                ///< behind the others, hardly seen
};

struct plot_text {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool logarithmic = false;  ///< the y axis; points that are not positive are left out
};

/// One page, white, with axes, ticks at round numbers, a light grid and, where there are several
/// curves, a legend below: nothing lies over the curves, and a label that is longer than the page
/// is cut in its middle. Points that are not finite are left out. A curve of very many points is
/// thinned to the lowest and highest of each column of pixels.
std::string svg_plot(const plot_text& text, const std::vector<curve>& curves);

/// Round numbers that divide [low, high] into about `count` parts; low < high.
std::vector<double> round_ticks(double low, double high, int count);

/// 1, 2 and 5 times powers of ten in [low, high], or only powers of ten where those are many, or
/// round_ticks where there are less than two; 0 < low < high.
std::vector<double> logarithmic_ticks(double low, double high);

/// The mean of each point and its neighbours on both sides, `window` in all: fewer at the ends.
std::vector<curve_point> smoothed(const std::vector<curve_point>& points, int window);

}  // namespace troupe::runtime

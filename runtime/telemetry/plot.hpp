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
  std::string label;
  std::vector<curve_point> points;  ///< ascending x
  bool marked = false;              ///< few points: a dot on each
};

struct plot_text {
  std::string title;
  std::string x_label;
  std::string y_label;
};

/// One page, white, with axes, ticks at round numbers, a light grid and a legend where there are
/// several curves. Points that are not finite are left out. A curve of very many points is thinned
/// to the lowest and highest of each column of pixels.
std::string svg_plot(const plot_text& text, const std::vector<curve>& curves);

/// Round numbers that divide [low, high] into about `count` parts; low < high.
std::vector<double> round_ticks(double low, double high, int count);

}  // namespace troupe::runtime

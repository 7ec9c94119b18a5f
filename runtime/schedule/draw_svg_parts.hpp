// What SVG is written with.

#pragma once

#include <map>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Pixels: two digits behind the point, and none that say nothing.
std::string px(double x);

/// Text that XML takes: what is no character of it, or no UTF-8, becomes a question mark.
std::string escaped(std::string_view text);

struct colour {
  double r, g, b;

  explicit colour(std::string_view hex);  ///< "#rrggbb"
  colour lighter(double by) const;        ///< 0 as it is, 1 white
  std::string text() const;
  bool is_dark() const { return 0.299 * r + 0.587 * g + 0.114 * b < 135; }
};

/// Of a kind of action, as in drawn_kinds; later chunks are lighter.
colour fill_of(int kind, int shade, int shades);

/// Boxes, those of one colour as one path.
class box_set {
 public:
  void add(const std::string& fill, double x, double y, double width, double height);
  std::string text() const;

 private:
  std::map<std::string, std::string> paths_;
};

}  // namespace troupe::runtime

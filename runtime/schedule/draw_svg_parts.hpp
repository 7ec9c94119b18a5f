// Building blocks of SVG text.

#pragma once

#include <map>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Pixels with at most two decimals, without trailing zeros.
std::string px(double x);

/// Escapes text for XML; invalid characters and invalid UTF-8 become question marks.
std::string escaped(std::string_view text);

struct colour {
  double r, g, b;

  explicit colour(std::string_view hex);  ///< "#rrggbb"
  colour lighter(double by) const;        ///< 0: unchanged, 1: white
  std::string text() const;
  bool is_dark() const { return 0.299 * r + 0.587 * g + 0.114 * b < 135; }
};

/// Colour of a kind of action, as in drawn_kinds; later chunks are lighter.
colour fill_of(int kind, int shade, int shades);

/// A set of boxes; boxes of one colour form one path.
class box_set {
 public:
  void add(const std::string& fill, double x, double y, double width, double height);
  std::string text() const;

 private:
  std::map<std::string, std::string> paths_;
};

}  // namespace troupe::runtime

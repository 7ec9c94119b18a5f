// Draws a run as a page of text for a terminal of at least 40 columns and 10 rows. All functions
// are pure: the same view gives the same page.

#pragma once

#include "runtime/watch/run_view.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

enum class screen_style {
  plain,
  bold,
  dim,
  good,
  caution,
  bad,
  curve,
  forward,
  backward,  ///< gradients of inputs
  weights,   ///< gradients of weights
  recompute
};

struct screen_text {
  int row = 0, column = 0;
  std::string text;  ///< UTF-8, without control characters; one column per code point
  screen_style style = screen_style::plain;
};

enum class screen_page { overview, members, timeline, events };

struct screen_wish {
  int columns = 80, rows = 24;
  screen_page page = screen_page::overview;
  int scroll = 0;               ///< first line of a list that does not fit
  double now = 0;               ///< Unix seconds
  bool ascii = false;           ///< for a terminal without UTF-8
  std::string connection = {};  ///< replaces `keys` if not empty: state of the connection
  std::string keys = "1 overview  2 processes  3 pipeline  4 events  p pause  ? keys  q quit";
};

/// The texts of a page, sorted by row. They do not overlap and fit into the page.
std::vector<screen_text> draw(const run_view& of, const screen_wish& how);

/// The largest useful `scroll` of this page. A larger value shows the same page.
int scroll_limit(const run_view& of, const screen_wish& how);

/// The page as lines without styles, for a printed page and tests.
std::string plain_text(const std::vector<screen_text>& page, const screen_wish& how);

/// A curve of `rows` lines with `columns` characters. Each character has 2 x 4 braille dots, or is
/// '*' in ASCII. Values that are not finite are omitted.
std::vector<std::string> text_curve(const std::deque<view_point>& points,
                                    int columns,
                                    int rows,
                                    bool ascii);

/// Examples: "1.5 GB", "12 kB". Units are powers of 1000.
std::string bytes_text(std::uint64_t bytes);

}  // namespace troupe::runtime

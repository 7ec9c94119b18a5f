// A run as a page of text for a terminal, from 40 x 10 on. Pure: the same view gives the same page.

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
  int scroll = 0;               ///< lines, of a list that is longer than its room
  double now = 0;               ///< Unix seconds
  bool ascii = false;           ///< a terminal without UTF-8
  std::string connection = {};  ///< a line in place of the keys: "the run does not answer ..."
  std::string keys = "1 overview  2 processes  3 pipeline  4 events  p pause  ? keys  q quit";
};

/// In order of rows; later ones do not overlap earlier ones. Everything fits into the page.
std::vector<screen_text> draw(const run_view& of, const screen_wish& how);

/// The largest `scroll` of a page that is a list: a larger one shows the same.
int scroll_limit(const run_view& of, const screen_wish& how);

/// The same as lines without styles, for a printed page and tests.
std::string plain_text(const std::vector<screen_text>& page, const screen_wish& how);

/// A curve of `rows` lines and `columns` characters: braille dots (2 x 4 in each), or '*' in ASCII.
/// Values that are not finite are omitted.
std::vector<std::string> text_curve(const std::deque<view_point>& points,
                                    int columns,
                                    int rows,
                                    bool ascii);

/// "1.5 GB", "12 kB"; powers of 1000.
std::string bytes_text(std::uint64_t bytes);

}  // namespace troupe::runtime

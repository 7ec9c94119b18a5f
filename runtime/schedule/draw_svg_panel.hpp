// One timeline of an SVG: one row per rank.

#pragma once

#include "runtime/schedule/draw_rows.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

struct svg_geometry {
  static constexpr double left = 62, right = 46;  ///< margins

  double width, scale;  ///< of the picture; pixels per unit of time
  double row, memory;   ///< heights, without the space below
  double space;

  double step() const { return row + (memory > 0 ? memory + 3 : 0) + space; }
  double x(double time) const { return left + time * scale; }
  double plot() const { return width - left - right; }
};

class svg_panel {
 public:
  /// `of` and `at` must outlive it. `named`: each box has a tooltip.
  svg_panel(const drawn_timeline& of, const svg_geometry& at, double top, bool named);

  /// Draws columns, because boxes would be too thin.
  bool in_columns() const { return in_columns_; }
  const std::vector<drawn_row>& rows() const { return rows_; }

  std::string text() const;

 private:
  double y(std::size_t r) const { return top_ + double(r) * at_.step(); }
  std::string labels() const;
  std::string boxes(const drawn_row& row, double top, std::size_t rank) const;
  /// Some pixels wide, filled from below by the share of each kind and shade.
  std::string columns(const drawn_row& row, double top) const;
  /// One step per change; the highest of several changes within a pixel.
  std::string memory(const rank_timeline& rank, double top) const;

  const drawn_timeline& of_;
  std::vector<drawn_row> rows_;
  const svg_geometry& at_;
  double top_;
  bool named_, in_columns_ = false;
  std::size_t digits_ = 1;  ///< of the longest number; numbers are drawn only if all fit
};

}  // namespace troupe::runtime

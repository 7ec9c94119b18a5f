// What is drawn of a timeline, whatever it is drawn with.

#pragma once

#include "runtime/schedule/draw.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

struct drawn_kind {
  char letter;
  std::string_view words;
  std::string_view
      colour;    ///< "#rrggbb": told apart by eyes that see no red or no green, and in grey
  int terminal;  ///< the same among the 256 colours of terminals
};
/// Of F, B, I, W and R, as in action_kind.
inline constexpr std::array<drawn_kind, 5> drawn_kinds = {{
    {'F', "forward", "#2f5f9e", 67},
    {'B', "backward: input, then weight gradients", "#cf6247", 167},
    {'I', "input gradients", "#f2b84f", 215},
    {'W', "weight gradients", "#5fb39c", 72},
    {'R', "forward again, for the backward pass", "#d3a8cd", 182},
}};

struct drawn_box {
  double begin = 0, end = 0;
  std::uint8_t kind = 0;
  std::uint8_t half = 0;    ///< of a pair: 1 above, 2 below; else 0
  std::uint16_t shade = 0;  ///< which of its copy's chunks on this rank, ascending
  action what;
};

struct drawn_row {
  std::vector<drawn_box> boxes;  ///< ascending, of positive length
  int shades = 1;
};

/// Transfers, which take a rank no time, are not among them.
std::vector<drawn_row> drawn_rows(const timeline& of);

/// Of all: where the axis of time ends.
double last_end(const std::vector<drawn_timeline>& all);
/// "makespan 27 ms, bubble 11.1 %".
std::string caption_of(const drawn_timeline& x);

}  // namespace troupe::runtime

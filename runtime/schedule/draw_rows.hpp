// The boxes of a drawn timeline, for all output formats.

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
  std::string_view colour;  ///< "#rrggbb"; distinct with red-green blindness, and in grey
  int terminal;             ///< the same colour among the 256 colours of terminals
};
/// F, B, I, W and R, in the order of action_kind.
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
  std::uint8_t half = 0;    ///< of a pair: 1 upper, 2 lower; otherwise 0
  std::uint16_t shade = 0;  ///< index among the chunks of its copy on this rank, ascending
  action what;
};

struct drawn_row {
  std::vector<drawn_box> boxes;  ///< ascending, of positive length
  int shades = 1;
};

/// Leaves out transfers, because they take a rank no time.
std::vector<drawn_row> drawn_rows(const timeline& of);

/// The latest end of all timelines: the end of the time axis.
double last_end(const std::vector<drawn_timeline>& all);
/// "makespan 27 ms, bubble 11.1 %".
std::string caption_of(const drawn_timeline& x);

}  // namespace troupe::runtime

// Timelines that one can read.

#pragma once

#include "runtime/schedule/simulate.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// One picture or track group of several that stand below each other.
struct drawn_timeline {
  std::string title;  ///< "planned", "executed, step 3"
  timeline what;
  int copies = 1;
  std::string unit = {};  ///< of time; "" for none, "ms"
};

struct drawing_settings {
  int width = 1200;     ///< pixels
  bool memory = false;  ///< with what each rank holds below its row
};

/// SVG for documents: a row a rank, a box an action, colours by kind, shades by chunk, numbers
/// where they fit, idle time left white, one axis of time for all timelines.
std::string to_svg(const std::vector<drawn_timeline>& all, const drawing_settings& how = {});

/// JSON in the Trace Event Format, which Chrome and Perfetto read: a process a timeline, a thread a
/// rank.
std::string to_chrome_trace(const std::vector<drawn_timeline>& all);

/// A step of a run from the file that `troupe train --trace` wrote: of one replica and tensor rank.
/// Times in ms from the step's first action. Throws input_error for what is no such file, or has no
/// such step.
timeline executed_from_trace(std::string_view json, const plan& planned, std::uint64_t step);

}  // namespace troupe::runtime

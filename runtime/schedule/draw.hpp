// Draws timelines of plans and steps: SVG, terminal text and Chrome traces.

#pragma once

#include "runtime/schedule/simulate.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// One of several timelines in a drawing.
struct drawn_timeline {
  std::string title;  ///< "planned", "executed, step 3"
  timeline what;
  int copies = 1;
  std::string unit = {};  ///< of time: "ms", or "" for none
  std::string note = {};  ///< for the caption, after makespan and bubble
};

struct drawing_settings {
  int width = 1200;     ///< pixels
  bool memory = false;  ///< also draws the memory of each rank below its row
};

/// SVG for documents: one row per rank, one box per action, colours by kind, shades by chunk. Copy
/// b is hatched. The two actions of a pair are above each other. Micro-batch numbers appear where
/// they fit; idle time is white. All timelines share one time axis. If boxes would be too thin,
/// columns show the share of time of each kind, so ranks and width bound the file size. Produces
/// well-formed XML for all titles, without fonts, scripts and links.
std::string to_svg(const std::vector<drawn_timeline>& all, const drawing_settings& settings = {});

struct text_settings {
  int width = 80;       ///< columns
  bool colour = false;  ///< with terminal escape sequences
};

/// Text for terminals, one line per rank. An action is its letter, its micro-batch if that fits,
/// and dashes to its end; a pair is the letter P. Later chunks and copy b are in lower case; idle
/// time is dots. If a column covers several actions, it has the letter of the longest one.
std::string to_text(const std::vector<drawn_timeline>& all, const text_settings& settings = {});

/// JSON in the Trace Event Format of Chrome and Perfetto: one process per timeline, one thread per
/// rank, its memory as a counter. A unit of time is 1 ms.
std::string to_chrome_trace(const std::vector<drawn_timeline>& all);

struct executed_step {
  timeline what;
  int pairs = 0, pairs_apart = 0;  ///< planned pairs; pairs that ran one after the other
  /// For each rank with another order than the plan: "rank 0: from its 5th action on the order
  /// differs from the plan: 0B0, planned 0F4". Not an error: a behaviour decides at run time.
  std::vector<std::string> other_order;
};

/// Reads an executed step from the trace of a training run, for the lowest replica and tensor rank.
/// Actions are in the order of their start; B lasts from the start of its I to the end of its W.
/// Memory is counted in held micro-batches. Times are in ms from the first action of the step.
/// Throws input_error with `file` if the file is invalid, does not have the step, or if its actions
/// are not those of the plan.
executed_step executed_from_trace(std::string_view json,
                                  const std::string& file,
                                  const plan& planned,
                                  std::uint64_t step);

}  // namespace troupe::runtime

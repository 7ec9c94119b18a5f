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
  std::string note = {};  ///< for its caption, behind makespan and bubble
};

struct drawing_settings {
  int width = 1200;     ///< pixels
  bool memory = false;  ///< with what each rank holds below its row
};

/// SVG for documents: a row a rank, a box an action, colours by kind, shades by chunk, copy b
/// hatched, the two of a pair above each other, numbers of micro-batches where they fit, idle time
/// left white, one axis of time for all timelines. Where boxes are too thin to be told apart there
/// are columns instead, filled by what share of their time each kind takes, so that the size is
/// bounded by ranks and width. Well-formed XML whatever the titles; no fonts, scripts or links.
std::string to_svg(const std::vector<drawn_timeline>& all, const drawing_settings& settings = {});

struct text_settings {
  int width = 80;       ///< columns
  bool colour = false;  ///< with the escape sequences of a terminal
};

/// A line a rank for terminals: an action is its letter, its micro-batch where that fits, and
/// dashes to its end, a pair its letter P; later chunks and copy b in small letters; idle time is
/// dots. Where columns are longer than actions, each has the letter of what takes most of it.
std::string to_text(const std::vector<drawn_timeline>& all, const text_settings& settings = {});

/// JSON in the Trace Event Format, which Chrome and Perfetto read: a process a timeline, a thread a
/// rank, what it holds as a counter. A unit of time is 1 ms.
std::string to_chrome_trace(const std::vector<drawn_timeline>& all);

struct executed_step {
  timeline what;
  int pairs = 0, pairs_apart = 0;  ///< planned; done one after the other instead
  /// Of each rank whose order is not the plan's: "rank 0: from its 5th action on the order differs
  /// from the plan: 0B0, planned 0F4". No fault: a behaviour decides as it goes.
  std::vector<std::string> other_order;
};

/// A step of a run from the trace that a training run wrote: of one replica and tensor rank,
/// those of the lowest number. Every planned action is there, B from the begin of its I to the end
/// of its W, in the order in which they began; memory as micro-batches held. Times in ms from the
/// step's first action. Throws input_error, which names `file`, for what is no such file, or has no
/// such step, or lacks an action of the plan, or has one that the plan lacks.
executed_step executed_from_trace(std::string_view json,
                                  const std::string& file,
                                  const plan& planned,
                                  std::uint64_t step);

}  // namespace troupe::runtime

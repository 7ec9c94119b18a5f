// Lines of the lists on a page: members, stragglers and events (screen.hpp).

#pragma once

#include "runtime/watch/screen.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

struct screen_line {
  std::string text;  ///< may have control characters
  screen_style style = screen_style::plain;
};

/// The tree of hosts, processes, replicas, stages and lanes. Members that are not running come
/// first. `now`: Unix seconds.
std::vector<screen_line> lines_of_members(const run_view& of, double now);

/// One line per record of slow workers, the newest first.
std::vector<screen_line> lines_of_stragglers(const run_view& of, double now);

/// The newest event first.
std::vector<screen_line> lines_of_events(const run_view& of, double now);

}  // namespace troupe::runtime

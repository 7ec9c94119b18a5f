// `troupe monitor --trace FILE` and `--otlp URL`: the timelines of a live run for other programs.

#pragma once

#include "runtime/watch/follower.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace troupe::command {

struct timeline_export {
  std::filesystem::path trace;  ///< empty: none. Ends the command after `steps`
  std::uint64_t steps = 10;
  std::string otlp;  ///< URL of a collector, without /v1/traces; empty: none
};

/// Follows the run. Returns the exit code. A trace asks the run for the timeline of each step if
/// the run's folder is here; otherwise it has about one step a second. Throws as runtime::follower,
/// and io_error if the trace cannot be written.
int export_timelines(const runtime::followed_run& run, const timeline_export& how);

}  // namespace troupe::command

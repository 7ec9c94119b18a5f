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

/// Follows the run to its end, or until the trace has `steps` steps. Returns the exit code. If the
/// run's folder is on this host, the trace requests the timeline of each step. Otherwise it has
/// about one step a second. A failed request to the collector is only a warning.
///
/// Throws as runtime::follower and runtime::require_webhook, io_error if the trace cannot be
/// written, and input_error for a run with one pipeline stage.
int export_timelines(const runtime::followed_run& run, const timeline_export& how);

}  // namespace troupe::command

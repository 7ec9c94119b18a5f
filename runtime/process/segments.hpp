// Named shared memory, which outlives the process that created it.

#pragma once

#include <filesystem>
#include <string>

namespace troupe::runtime {

/// Prefix of the names of a run's segments: "/troupe-<id>-". Segments without it are never removed.
std::string segment_prefix(const std::string& run_id);

/// Unlinks every segment of a run of this user; returns their number. Existing mappings stay valid.
int remove_segments(const std::string& run_id);

}  // namespace troupe::runtime

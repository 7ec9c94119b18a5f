// Shared memory with names, which outlives who made it.

#pragma once

#include <filesystem>
#include <string>

namespace troupe::runtime {

/// Segments of a run that have names begin so: "/troupe-<id>-". A name without it is nobody's to
/// remove.
std::string segment_prefix(const std::string& run_id);

/// Unlinks every segment of a run of this user; returns how many there were. Whoever has one mapped
/// keeps it.
int remove_segments(const std::string& run_id);

}  // namespace troupe::runtime

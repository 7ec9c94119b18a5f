// Event files for TensorBoard: docs/formats/event_file.md.

#pragma once

#include "runtime/telemetry/recorder.hpp"
#include "runtime/telemetry/run_log.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4); the second is masked as in event files.
std::uint32_t crc32c(std::string_view bytes);
std::uint32_t masked_crc32c(std::string_view bytes);

/// A record of an event file: length, its checksum, the bytes, their checksum.
std::string framed(std::string_view bytes);

using scalars = std::vector<std::pair<std::string, double>>;

/// An event with named scalars, without the record frame.
std::string scalar_event(double wall_time, std::int64_t step, const scalars& values);

struct board_settings {
  log_settings log;
  std::uint64_t interval = 1;  ///< write every N steps
  /// Start of the run; TensorBoard hides what older files contain beyond it.
  std::uint64_t first_iteration = 0, first_consumed = 0;
};

/// Creates the folder if needed, and a file in it that TensorBoard reads after all existing files.
/// Names are Megatron-LM's. Scalars named "... vs samples" use consumed samples instead of steps.
/// They go to a file in the subfolder `samples`: on resume, a reader discards a file's later events
/// by one number only.
std::unique_ptr<record_sink> open_event_file(const std::filesystem::path& folder,
                                             const board_settings& settings);

}  // namespace troupe::runtime

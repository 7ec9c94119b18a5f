// Event files, as TensorBoard reads them: docs/formats/event_file.md.

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

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4), and as event files have it.
std::uint32_t crc32c(std::string_view bytes);
std::uint32_t masked_crc32c(std::string_view bytes);

/// A record of an event file: length, its checksum, the bytes, theirs.
std::string framed(std::string_view bytes);

using scalars = std::vector<std::pair<std::string, double>>;

/// An event with named numbers, as it lies in a record.
std::string scalar_event(double wall_time, std::int64_t step, const scalars& values);

struct board_settings {
  log_settings log;
  std::uint64_t interval = 1;  ///< steps between two that are written
  /// Where the run begins: what older files have beyond is not shown any more.
  std::uint64_t first_iteration = 0, first_consumed = 0;
};

/// Makes the folder if needed, and a file in it that TensorBoard reads after all that are there.
/// Names are Megatron-LM's; "... vs samples" have consumed samples in place of steps, and stand in
/// the folder `samples` below: a reader drops by one number what a run that goes on writes again.
std::unique_ptr<record_sink> open_event_file(const std::filesystem::path& folder,
                                             const board_settings& settings);

}  // namespace troupe::runtime

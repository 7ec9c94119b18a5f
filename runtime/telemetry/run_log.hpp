// The log of a run, as JSON lines and as a table: docs/formats/log.md has every field.

#pragma once

#include "runtime/telemetry/recorder.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// What a log has beside the reports.
struct log_settings {
  bool throughput = false;
  double matrix_rate = 0;  ///< FLOP a second; 0: not known
  bool append = false;     ///< the run goes on from a checkpoint
};

/// One JSON object, no line end. Numbers that are not finite are null.
std::string json_record(const step_report& x, const log_settings& settings);
std::string json_record(const validation_report& x);
std::string json_record(const run_event& x);

/// The names of a table's columns, of one that is begun now.
const std::vector<std::string>& csv_columns();
/// Those of a table whose first line this is: what an older build began keeps its columns. A line
/// that does not begin with the iteration's names none: csv_columns().
std::vector<std::string> columns_in(std::string_view first_line);
/// csv_columns(), with the line end.
std::string csv_header();
/// One row, with its line end; numbers that are not finite or were not asked for, and columns that
/// this build does not know, are empty.
std::string csv_row(const step_report& x,
                    const validation_report* validated,
                    const log_settings& settings,
                    const std::vector<std::string>& columns = csv_columns());

/// JSON lines, one for each report.
std::unique_ptr<record_sink> open_json_log(const std::filesystem::path& path,
                                           const log_settings& settings);

/// A table, one row for each step. `is_validated` tells of which iterations a validation follows:
/// their rows wait for it, until the next step or the end.
std::unique_ptr<record_sink> open_csv_log(const std::filesystem::path& path,
                                          const log_settings& settings,
                                          std::function<bool(std::uint64_t)> is_validated);

/// The iteration of a line of either, without its end; negative: it is no record.
std::int64_t iteration_of_json(std::string_view line);
std::int64_t iteration_of_row(std::string_view line);

}  // namespace troupe::runtime

// The log of a run as JSON lines and as a CSV table. All fields: docs/formats/log.md.

#pragma once

#include "runtime/telemetry/recorder.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// Settings of a log besides the reports.
struct log_settings {
  bool throughput = false;
  double matrix_rate = 0;                ///< FLOP/s; 0: unknown
  bool append = false;                   ///< the run resumes from a checkpoint
  std::vector<std::string> losses = {};  ///< names, as in step_report
  bool expert_layers = false;            ///< has each layer of step_report::experts
};

/// (field, mean): each loss of a step, then their sum if the model has several.
std::vector<std::pair<std::string, double>> loss_fields(const step_report& x);

/// One JSON object without a line end. Numbers that are not finite become null.
std::string json_record(const step_report& x, const log_settings& settings);
std::string json_record(const validation_report& x);
std::string json_record(const run_event& x);

/// These functions parse a JSON record for viewers. A missing field, or one of another type, keeps
/// its default; a missing loss is NaN. A loss has the name of its field, except "lm loss". Unknown
/// fields are ignored. Empty for text without an iteration, a validation without a loss, and an
/// event without its kind.
///
/// A `grad_norm` of null is read as infinity. The log lacks some fields of a report, such as the
/// number of steps skipped in a row: `skipped.in_a_row` is 1 if `grad_norm` is null, else 0. Of
/// experts only the extremes over all layers are read.
std::optional<step_report> read_step_record(std::string_view text);
std::optional<validation_report> read_validation_record(std::string_view text);
std::optional<run_event> read_event_record(std::string_view text);

/// Column names of a new table of a run with these losses.
std::vector<std::string> csv_columns(const std::vector<std::string>& losses = {});
/// Column names in the first line of a table: a table of an older build keeps its columns. Returns
/// csv_columns(losses) if the line does not start with "iteration".
std::vector<std::string> columns_in(std::string_view first_line,
                                    const std::vector<std::string>& losses = {});
/// csv_columns(losses) as a line, with its line end.
std::string csv_header(const std::vector<std::string>& losses = {});
/// One row with its line end. Cells are empty for numbers that are not finite or not requested, and
/// for unknown columns.
std::string csv_row(const step_report& x,
                    const validation_report* validated,
                    const log_settings& settings,
                    const std::vector<std::string>& columns = csv_columns());

/// JSON lines, one per report.
std::unique_ptr<record_sink> open_json_log(const std::filesystem::path& path,
                                           const log_settings& settings);

/// A table with one row per step. A validation adds its loss to the newest row, in place.
std::unique_ptr<record_sink> open_csv_log(const std::filesystem::path& path,
                                          const log_settings& settings);

/// Iteration of a line of either log, without its line end; negative if it is not a record.
std::int64_t iteration_of_json(std::string_view line);
std::int64_t iteration_of_row(std::string_view line);

}  // namespace troupe::runtime

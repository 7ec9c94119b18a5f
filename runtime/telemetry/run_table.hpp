// Reads the log of a run back, in either format.

#pragma once

#include "runtime/telemetry/plot.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// An event of a run: a restart, a straggler, a step that was left out.
struct logged_event {
  std::uint64_t iteration = 0;
  std::string kind;  ///< as `event` in the log: "restart", ...
  std::string why;   ///< begins with the actor or process
  std::optional<double> seconds = {};
};

/// Numbers by field and iteration. Skipped and torn records are left out.
class run_table {
 public:
  /// Reads JSON lines, or a table whose first line has a column `iteration`. The format is detected
  /// from the contents. An unterminated last line is ignored: it is still being written. Other
  /// invalid lines are counted in `skipped`. Throws input_error if the file has no record.
  explicit run_table(const std::filesystem::path& log);

  /// Ascending by iteration; a repeated iteration counts with its last value. Empty if there is no
  /// such field.
  std::vector<curve_point> by_iteration(const std::string& field) const;
  std::optional<double> at(const std::string& field, std::uint64_t iteration) const;
  std::vector<std::string> fields() const;  ///< fields with numbers, sorted, without the iteration
  /// The field with the training loss: the sum, if the model has several losses.
  std::string loss_field() const { return fields_.contains("loss") ? "loss" : "lm_loss"; }
  std::uint64_t last_iteration() const;
  /// In the order of the log. Empty for tables, which have no events.
  const std::vector<logged_event>& events() const { return events_; }

  const std::vector<std::size_t>& skipped() const { return skipped_; }  ///< line numbers

 private:
  void read_json(std::string_view text);
  void read_table(std::string_view text);

  std::map<std::string, std::map<std::uint64_t, double>> fields_;
  std::vector<logged_event> events_;
  std::vector<std::size_t> skipped_;
};

/// The log of `run`: the file itself; in a folder log.jsonl, log.csv, or the only file that ends in
/// .jsonl or .csv. Throws input_error with the names that it looked for.
std::filesystem::path find_log(const std::filesystem::path& run);

/// A short unique name for each run: the file name without its extension, or the folder name if the
/// file is called log. Adds more of the path if names are equal.
std::vector<std::string> names_of_runs(const std::vector<std::filesystem::path>& logs);

}  // namespace troupe::runtime

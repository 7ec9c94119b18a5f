// The log of a run, read back: whichever form it has.

#pragma once

#include "runtime/telemetry/plot.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Numbers by field and iteration. Values of a skipped or torn record are not there.
class run_table {
 public:
  /// Reads JSON lines, or a table whose first line names its columns and has an `iteration`: by
  /// what is in the file, not by its name. A last line without its end is one that is being
  /// written; other lines that are no record are counted in `skipped`. Throws input_error when the
  /// file has no record at all.
  explicit run_table(const std::filesystem::path& log);

  /// Ascending by iteration; of an iteration that is there twice the later. Empty: no such field.
  std::vector<curve_point> by_iteration(const std::string& field) const;
  std::optional<double> at(const std::string& field, std::uint64_t iteration) const;
  std::vector<std::string> fields() const;  ///< that have a number, sorted; without the iteration
  std::uint64_t last_iteration() const;

  const std::vector<std::size_t>& skipped() const { return skipped_; }  ///< numbers of lines

 private:
  void read_json(std::string_view text);
  void read_table(std::string_view text);

  std::map<std::string, std::map<std::uint64_t, double>> fields_;
  std::vector<std::size_t> skipped_;
};

/// The log of `run`: the file itself, or in a folder log.jsonl, log.csv, or the only file there
/// that ends in .jsonl or .csv. Throws input_error that says what was looked for.
std::filesystem::path find_log(const std::filesystem::path& run);

/// A name for each run, as short as tells them apart: the file's without its ending, or the
/// folder's where the file is only called log; with more of the path where that is the same.
std::vector<std::string> names_of_runs(const std::vector<std::filesystem::path>& logs);

}  // namespace troupe::runtime

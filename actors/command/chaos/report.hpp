// The results of chaos: as JSON, as a table for the terminal, and as Markdown for docs/benchmarks.

#pragma once

#include "actors/command/chaos/run.hpp"
#include "runtime/core/json_text.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::command::chaos {

struct chaos_report {
  std::vector<std::string> command;  ///< "train", "gpt", ...
  std::string program;               ///< version_text
  std::uint64_t seed = 1;
  std::string replay;  ///< the command that repeats all of it
  run_result undisturbed;
  double step_seconds = 0;  ///< median of the undisturbed run
  std::vector<run_result> runs;

  bool holds() const;
  /// All violations, with their run and fault.
  sentences all_wrong() const;
  std::vector<const struck_fault*> faults() const;
  /// Number of faults without effect (struck_fault::had_effect).
  std::size_t without_effect() const;
};

/// Nearest-rank percentile; nothing for an empty list.
std::optional<double> percentile(std::vector<double> all, double hundredths);

/// Share of its time that a run spends on new steps, if such a fault strikes once in
/// `every_seconds`. Empty if no fault cost time.
std::optional<double> effective_share(const chaos_report& x, double every_seconds);

nlohmann::ordered_json json_of(const chaos_report& x);

/// Parts of the table: its head, the row of a fault, and the summary below.
std::string table_head();
std::string table_row(const struck_fault& x);
std::string summary_of(const chaos_report& x);

/// A table of kinds and roles, and one of moments. Cells are "ok", "**FAIL**", "no effect" or
/// empty.
std::string markdown_of(const chaos_report& x);

}  // namespace troupe::command::chaos

// What chaos has found: as JSON, as a table on the terminal, as Markdown for docs/benchmarks.

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
  std::string replay;  ///< the command that brings all of it about again
  run_result undisturbed;
  double step_seconds = 0;  ///< of the undisturbed run, in the middle
  std::vector<run_result> runs;

  bool holds() const;
  /// All that is wrong, in words that name run, fault and how to have it again.
  sentences all_wrong() const;
  std::vector<const struck_fault*> faults() const;
  /// How many of them had no effect (struck_fault::had_effect).
  std::size_t without_effect() const;
};

/// The smallest of them that so many hundredths are not above; nothing of none.
std::optional<double> percentile(std::vector<double> all, double hundredths);

/// The share of its time that a run spends on steps that count, if a fault such as these strikes
/// once in so many seconds; nothing: none cost time.
std::optional<double> effective_share(const chaos_report& x, double every_seconds);

nlohmann::ordered_json json_of(const chaos_report& x);

/// The lines of the table: its head, a fault, and what comes below.
std::string table_head();
std::string table_row(const struck_fault& x);
std::string summary_of(const chaos_report& x);

/// A table of kinds and roles, and one of moments, with "ok", "**FAIL**", "no effect" or nothing in
/// each cell.
std::string markdown_of(const chaos_report& x);

}  // namespace troupe::command::chaos

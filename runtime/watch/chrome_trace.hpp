// Timelines of a live run as a trace for Chrome's trace viewer and https://ui.perfetto.dev, in the
// Trace Event Format: a process per pipeline rank, with the executed actions above the planned
// ones.

#pragma once

#include "runtime/watch/run_view.hpp"

#include <cstdint>
#include <set>
#include <string>

namespace troupe::runtime {

/// Grows by one step at a time.
class chrome_trace {
 public:
  /// A step begins `executed_ms` before the time of its record, but not before the end of the
  /// previous step.
  void add(const view_timeline& x);
  std::uint64_t steps() const { return steps_; }
  std::string text() const;  ///< a JSON object

 private:
  void add_row(const view_timeline& of, const view_row& x, double begin_us);
  void add_action(
      const view_action& x, std::uint64_t iteration, int rank, bool planned, double begin_us);

  std::string events_;
  double first_ms_ = 0;  ///< Unix time of the first step's begin
  double end_us_ = 0;    ///< of the newest step, since `first_ms_`
  std::set<int> named_;  ///< ranks
  std::uint64_t steps_ = 0;
};

}  // namespace troupe::runtime

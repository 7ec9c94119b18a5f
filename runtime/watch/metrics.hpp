// The metrics of a run for Prometheus, made from its view, in the text exposition format.
//
// Units are seconds, bytes and ratios. An unknown value has no series. A value that is not finite
// is NaN or +Inf. The dashboard and the alerts in examples/monitoring/ use these metric names.

#pragma once

#include "runtime/watch/metrics_page.hpp"
#include "runtime/watch/run_view.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace troupe::runtime {

/// Values and limits that are not part of a view.
struct metrics_facts {
  std::optional<std::size_t> viewers = {};  ///< open streams
  metrics_limits most = {};

  /// A process is down if its newest sample is this much older than the newest record. It then has
  /// only the series troupe_process_up.
  double silent_after_s = 30;
  double forgotten_after_s = 3600;  ///< age at which all series of a process are omitted
};

std::string metrics_text(const run_view& of, const metrics_facts& facts = {});

}  // namespace troupe::runtime

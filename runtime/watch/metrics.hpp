// What a run shows to Prometheus: its view as metrics in the text exposition format. Units are
// seconds, bytes and ratios. A value that is not known has no series; one that is not finite is NaN
// or +Inf. The dashboard and the alerts in examples/monitoring/ use these names.

#pragma once

#include "runtime/watch/metrics_page.hpp"
#include "runtime/watch/run_view.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace troupe::runtime {

/// What a view does not know.
struct metrics_facts {
  std::optional<std::size_t> viewers = {};  ///< open streams
  metrics_limits most = {};

  /// A process whose newest sample is this much older than the newest record is not up. Only its
  /// `up` is shown.
  double silent_after_s = 30;
  double forgotten_after_s = 3600;  ///< then it is not shown
};

std::string metrics_text(const run_view& of, const metrics_facts& facts = {});

}  // namespace troupe::runtime

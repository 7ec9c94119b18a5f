// The source of a hub's `/metrics`: a view of the run that follows the hub's ring. Counts events
// while it follows, so a ring that drops old events later changes no counter.
//
//   auto source = std::make_shared<metrics_source>(records, run);
//   sources.metrics = [source, ...] { return source->text(viewers()); };
//
// Used on the HTTP server's thread only. Events that the ring drops before `catch_up` reads them
// are missing from the counters, and count as dropped records. So call `catch_up` at least once per
// `ring_capacities::facts` records: each second is enough.

#pragma once

#include "runtime/telemetry/record_ring.hpp"
#include "runtime/watch/metrics.hpp"
#include "runtime/watch/run_view.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace troupe::runtime {

class metrics_source {
 public:
  /// `run`: the answer of /api/run.
  metrics_source(std::shared_ptr<const record_ring> records, const std::string& run);

  /// Takes the ring's next records: at most 16 parts of 1,000 records or 256 KiB. False: more are
  /// left, for the next call.
  bool catch_up();

  /// Catches up, then makes the page.
  std::string text(std::optional<std::size_t> viewers = {});

  const run_view& view() const { return view_; }

 private:
  bool take_part();
  /// Takes newest records of members, processes and timelines that the ring's queues have dropped.
  void take_missed_states(const record_ring::pulled& found);

  std::shared_ptr<const record_ring> records_;
  viewer_position position_;
  run_view view_;
};

}  // namespace troupe::runtime

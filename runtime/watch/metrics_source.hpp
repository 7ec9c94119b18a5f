// The source of a hub's `/metrics`: a view of the run that follows the hub's ring. It counts events
// when it reads them, so the counters stay right after the ring has dropped these events.
//
//   auto source = std::make_shared<metrics_source>(records, run);
//   sources.metrics = [source, ...] { return source->text(viewers()); };
//
// Used only on the HTTP server's thread. The counters miss events that the ring drops before
// `catch_up` reads them; they count as dropped records. So call `catch_up` at least once per
// `ring_capacities::facts` records. Once a second is enough.

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

  /// Reads the next records of the ring: at most 16 parts of 1,000 records or 256 KiB. Returns
  /// false if records are left for the next call.
  bool catch_up();

  /// Catches up in at most four calls of `catch_up`, then makes the page.
  std::string text(std::optional<std::size_t> viewers = {});

  const run_view& view() const { return view_; }

 private:
  bool take_part();
  /// Reads the newest record of each key that was dropped from the ring's queues.
  void take_missed_states(const record_ring::pulled& found);

  std::shared_ptr<const record_ring> records_;
  viewer_position position_;
  run_view view_;
};

}  // namespace troupe::runtime

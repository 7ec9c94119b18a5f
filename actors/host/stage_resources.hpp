// Resources of a process for its stages: memory, recorders, and the states of its ranks, which
// outlive them.

#pragma once

#include "actors/host/shared_resources.hpp"
#include "runtime/device/lane_reaper.hpp"
#include "runtime/job/device_setup.hpp"
#include "runtime/process/process_id.hpp"
#include "runtime/telemetry/operation_profile.hpp"
#include "runtime/telemetry/trace.hpp"
#include "runtime/telemetry/traffic.hpp"

#include <cstdint>
#include <functional>
#include <memory>

namespace troupe::actors {

struct stage_resources : virtual shared_resources {
  runtime::memory_pool pool = {};                             ///< for micro-batches
  std::shared_ptr<const runtime::held_devices> devices = {};  ///< claimed; null: not claimed
  std::shared_ptr<pool_registry> pools = std::make_shared<pool_registry>();
  std::shared_ptr<estate_registry> estates = std::make_shared<estate_registry>();
  std::shared_ptr<runtime::lane_reaper> reaper = std::make_shared<runtime::lane_reaper>();

  std::shared_ptr<runtime::trace_recorder> trace = {};       ///< null: tracing is off
  std::shared_ptr<runtime::operation_profile> profile = {};  ///< null: profiling is off
  std::shared_ptr<runtime::traffic_counters> traffic
      = std::make_shared<runtime::traffic_counters>();
  std::uint64_t clock = runtime::steady_clock_of_machine();  ///< of stages' times

  std::function<void(runtime::worker&)> restore
      = {};  ///< fills a new worker; null: initial weights
  /// Fills a worker with the state after that iteration, from a checkpoint that this run saved.
  std::function<void(runtime::worker&, std::uint64_t iteration)> restore_saved = {};
};

}  // namespace troupe::actors

// Resources of a process for its monitor: the log book, and the sources of its measurements.

#pragma once

#include "actors/host/keeper_resources.hpp"
#include "actors/host/stage_resources.hpp"
#include "actors/host/watch_resources.hpp"
#include "runtime/machine/gpu_meter.hpp"
#include "runtime/process/package_energy.hpp"
#include "runtime/telemetry/recent_warnings.hpp"

#include <cstdint>
#include <memory>
#include <optional>

namespace troupe::actors {

class monitor_book;

/// The end of the logs of a run as written by an earlier process.
struct written_so_far {
  std::uint64_t fact = 0;       ///< number of the newest ledger fact in every log
  std::uint64_t iteration = 0;  ///< last iteration in the logs
  std::uint64_t consumed = 0;   ///< samples consumed up to `iteration`
};

struct monitor_resources : virtual keeper_resources,
                           virtual stage_resources,
                           virtual watch_resources {
  /// Shared log book of this process's monitors; made by the first. They use it one after the
  /// other.
  mutable std::shared_ptr<monitor_book> book = {};
  /// Empty: the logs begin with the run.
  std::optional<written_so_far> written = {};
  std::shared_ptr<const runtime::gpu_meter> gpus = {};  ///< null: no rank uses a GPU
  std::shared_ptr<runtime::package_energy> energy = std::make_shared<runtime::package_energy>();
  /// Warnings of this process, if the hub is in another one.
  std::shared_ptr<runtime::recent_warnings> warnings = std::make_shared<runtime::recent_warnings>();
};

}  // namespace troupe::actors

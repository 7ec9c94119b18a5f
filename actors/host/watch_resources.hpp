// Resources of a process for the actors whose work viewers see.

#pragma once

#include "actors/host/shared_resources.hpp"
#include "runtime/telemetry/record_ring.hpp"

#include <functional>
#include <memory>

namespace troupe::actors {

struct watch_resources : virtual shared_resources {
  std::shared_ptr<runtime::record_ring> records = {};  ///< null: the run has no hub
  /// True if a viewer has recently sent the hub a request. Any thread.
  std::function<bool()> is_watched = [] { return false; };
};

}  // namespace troupe::actors

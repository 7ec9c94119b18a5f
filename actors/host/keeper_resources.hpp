// Resources of a process for its keeper: states of another process's ranks, which outlive it.

#pragma once

#include "actors/host/shared_resources.hpp"
#include "runtime/state/kept_states.hpp"
#include "runtime/state/local_states.hpp"

#include <memory>

namespace troupe::actors {

struct keeper_resources : virtual shared_resources {
  std::shared_ptr<runtime::kept_states> kept = std::make_shared<runtime::kept_states>();
  /// States that a keeper wrote to a local disk of this host; null: local snapshots are off.
  std::shared_ptr<runtime::local_states> stored = {};
};

}  // namespace troupe::actors

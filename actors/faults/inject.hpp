// Puts injected faults between the behaviours of a process and their environment.

#pragma once

#include "actors/faults/fault_injector.hpp"
#include "actors/host/context.hpp"

#include <memory>

namespace troupe::actors {

/// Wraps the message path, the transport, lanes, workers and the writing of shards. Call it once,
/// after the message path and the transport are set.
void inject(node_context& to, std::shared_ptr<const fault_injector> faults);

/// Injects the faults of a job; does nothing if there are none. Throws as fault_injector.
void inject(node_context& to, const runtime::fault_settings& settings);

}  // namespace troupe::actors

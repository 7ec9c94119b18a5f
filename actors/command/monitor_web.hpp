// `troupe monitor --web`: the page of a run, in a browser of this host.

#pragma once

#include "actors/command/monitored_run.hpp"

#include <memory>
#include <string>

namespace troupe::command {

/// Serves the page at `listen` (HOST:PORT of this host alone; empty: a free port of 127.0.0.1),
/// prints its address, and returns the exit code after a signal. Throws usage_error for another
/// `listen`, and as runtime::follower for an address without a run.
int show_monitor_page(const std::shared_ptr<const monitored_run>& run, const std::string& listen);

}  // namespace troupe::command

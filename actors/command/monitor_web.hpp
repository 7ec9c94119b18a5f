// `troupe monitor --web`: shows a run in a browser on this host.

#pragma once

#include "actors/command/monitored_run.hpp"

#include <memory>
#include <string>

namespace troupe::command {

/// Serves the page at `listen`, prints its URL, and returns the exit code after a signal.
/// `listen`: HOST:PORT with a loopback address; empty: a free port of 127.0.0.1. Throws usage_error
/// for another address, and as runtime::follower when HOST:PORT of the run has no hub.
int show_monitor_page(const std::shared_ptr<const monitored_run>& run, const std::string& listen);

}  // namespace troupe::command

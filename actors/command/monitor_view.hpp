// The live view of `troupe monitor` in a terminal.

#pragma once

#include "runtime/watch/follower.hpp"
#include "runtime/watch/screen.hpp"

namespace troupe::command {

/// Current time in Unix seconds.
double monitor_time();

/// Shows the run until a key or a signal ends the view. Returns the exit code. Throws as
/// runtime::follower until the hub has answered once, and as runtime::terminal.
int show_monitor(const runtime::followed_run& run, runtime::screen_page page, bool ascii);

}  // namespace troupe::command

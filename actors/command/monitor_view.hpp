// The live view of `troupe monitor` on a terminal.

#pragma once

#include "runtime/watch/follower.hpp"
#include "runtime/watch/screen.hpp"

namespace troupe::command {

/// Now, in Unix seconds, for the ages of records.
double monitor_time();

/// Shows the run until a key or a signal ends it; returns the exit code. Throws as
/// runtime::follower before the first answer, and as runtime::terminal.
int show_monitor(const runtime::followed_run& run, runtime::screen_page page, bool ascii);

}  // namespace troupe::command

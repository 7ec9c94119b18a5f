// `troupe monitor RUN --script FILE.lua`: runs a Lua script on the records of a run
// (runtime/script/monitor_script.hpp).

#pragma once

#include "runtime/watch/follower.hpp"

#include <filesystem>

namespace troupe::command {

/// Follows the run to its end. Returns the exit code. Throws as runtime::follower, and input_error
/// when the script fails.
int run_monitor_script(const runtime::followed_run& run, const std::filesystem::path& file);

}  // namespace troupe::command

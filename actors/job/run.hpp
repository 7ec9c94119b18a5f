// Runs a job from start to end: actor system, node, supervisor.

#pragma once

#include "actors/host/viewer.hpp"
#include "actors/job/prepare.hpp"
#include "actors/process/launch_settings.hpp"

#include <caf/fwd.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

/// How a job ended.
struct outcome {
  int exit_code = 0;   ///< 0: done; 2: bad input, or the system refused; 3: internal error
  std::string reason;  ///< empty when done; else which actor ended, and why
  /// A lane or connection hangs and could not be ended: the process must end by std::_Exit.
  bool left_behind = false;
};

/// The outcome of a supervisor that ended with this reason.
outcome outcome_of(const caf::error& reason);

/// The exit code for an exception that ends the process: 2 or 3.
int exit_code_of(const std::exception& failure);

/// Blocks until every actor has ended. `started` gets a function to request an early end. The node
/// knows viewer i as "viewer i", from 1. A job of several processes needs `processes`, with a run
/// folder that has credentials; this process then hosts no ranks. Your own program uses
/// own_program.hpp for that. Throws input_error when `processes` is missing, and io_error.
outcome run(const std::shared_ptr<const prepared_job>& job,
            const std::function<void(const drain_request&)>& started = {},
            const std::vector<make_viewer>& viewers = {},
            const std::optional<launch_settings>& processes = {});

}  // namespace troupe::actors

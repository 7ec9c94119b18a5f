// A job from begin to end: the actor system, its node, its supervisor.

#pragma once

#include "actors/job/prepare.hpp"
#include "actors/job/viewer.hpp"
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
  int exit_code = 0;   ///< 0: done; 2: input or system refused; 3: we failed
  std::string reason;  ///< empty when it is done; else who ended and why
  /// A lane or a connection hangs and could not be ended: the process cannot end in order
  /// (std::_Exit).
  bool left_behind = false;
};

/// Of a supervisor that ended with this reason.
outcome outcome_of(const caf::error& reason);

/// Of a process that ends by this exception: 2 or 3.
int exit_code_of(const std::exception& failure);

/// Blocks until every actor has ended. `started` is given the way to ask for an early end. The node
/// knows viewer i as "viewer i", from 1. A job of several processes needs to be told how they are
/// started, in a folder of a run with credentials: this one hosts none of its ranks. A program of
/// your own leaves that to own_program.hpp. Throws input_error when it is not told, and io_error.
outcome run(const std::shared_ptr<const prepared_job>& job,
            const std::function<void(const drain_request&)>& started = {},
            const std::vector<make_viewer>& viewers = {},
            const std::optional<launch_settings>& processes = {});

}  // namespace troupe::actors

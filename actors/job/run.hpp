// A job from curtain to curtain: the actor system, its node, its supervisor.

#pragma once

#include "actors/job/viewer.hpp"
#include "actors/node/resources.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::actors {

/// How a job ended.
struct outcome {
  int exit_code = 0;   ///< 0: done; 2: input or system refused; 3: we failed
  std::string reason;  ///< empty when it is done; else who ended and why
};

/// Blocks until everybody has gone home. `started` is given the way to ask for an early end.
outcome run(std::shared_ptr<const resources> shared,
            const std::function<void(const drain_request&)>& started = {},
            const std::vector<make_viewer>& viewers = {});

}  // namespace troupe::actors

// A run whose supervisor's process the front has lost, and which goes on with another one: it is
// shown by its folder from then on.

#pragma once

#include "runtime/process/run_control.hpp"
#include "runtime/process/run_folder.hpp"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace troupe::command {

/// What a front has to say of a run that it follows.
struct front_requests {
  std::function<bool()> to_end;          ///< it is asked to end in order, by a signal
  std::function<bool()> to_end_at_once;  ///< the same, whatever has not been saved
  std::function<bool()> is_awaited;      ///< where nobody leads it: a successor is on its way
};

struct followed_end {
  std::optional<runtime::run_end> end;  ///< nothing: it died, or has been left to end it at once
  runtime::process_id last;             ///< that was its supervisor's process
};

/// Shows its log from now on, and passes requests on to whoever is its supervisor. `lost`: who was.
/// Throws input_error.
followed_end follow_run(const std::filesystem::path& folder,
                        const runtime::process_id& lost,
                        const front_requests& requests);

}  // namespace troupe::command

// Follows a run by its folder after the front lost the connection to the supervisor's process,
// while the run continues with another one.

#pragma once

#include "runtime/process/run_control.hpp"
#include "runtime/process/run_folder.hpp"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace troupe::command {

/// Requests of a front to the run that it follows.
struct front_requests {
  std::function<bool()> to_end;          ///< true after a signal to end in order
  std::function<bool()> to_end_at_once;  ///< true after a signal to end without saving
  std::function<bool()> is_awaited;      ///< true while a successor of the supervisor may come
};

struct followed_end {
  std::optional<runtime::run_end> end;  ///< nothing: the run died, or was ended at once
  runtime::process_id last;             ///< the last supervisor's process
};

/// Shows the log of the run from now on, and passes requests on to its supervisor. `lost`: the
/// previous supervisor's process. Throws input_error.
followed_end follow_run(const std::filesystem::path& folder,
                        const runtime::process_id& lost,
                        const front_requests& requests);

}  // namespace troupe::command

// Detects launchers that start one process per rank: torchrun, srun and mpirun.

#pragma once

#include <functional>
#include <optional>
#include <string>

namespace troupe::command {

/// Returns a warning if the environment shows that a launcher started several copies of this
/// command, since each would train the whole job. `variable` returns the value of an environment
/// variable, or null.
std::optional<std::string> launcher_warning(
    const std::function<const char*(const char* name)>& variable);

}  // namespace troupe::command

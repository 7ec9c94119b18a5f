// Launchers that start one process per rank, as torchrun, srun and mpirun do.

#pragma once

#include <functional>
#include <optional>
#include <string>

namespace troupe::command {

/// A warning where the environment says that a launcher started several copies of this command:
/// each would train the whole job. `variable`: the value of an environment variable, or null.
std::optional<std::string> launcher_warning(
    const std::function<const char*(const char* name)>& variable);

}  // namespace troupe::command

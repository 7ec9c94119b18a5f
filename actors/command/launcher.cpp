#include "actors/command/launcher.hpp"

#include "runtime/core/number_range.hpp"

#include <fmt/format.h>
#include <utility>

namespace troupe::command {

std::optional<std::string> launcher_warning(
    const std::function<const char*(const char* name)>& variable) {
  constexpr std::pair<const char*, const char*> launchers[] = {{"WORLD_SIZE", "torchrun"},
                                                               {"SLURM_NTASKS", "srun"},
                                                               {"OMPI_COMM_WORLD_SIZE", "mpirun"},
                                                               {"PMI_SIZE", "mpiexec"}};
  for (const auto& [name, launcher] : launchers) {
    const char* const value = variable(name);
    if (value == nullptr || !number_in(runtime::whole_range{.least = 2}, value))
      continue;
    return fmt::format(
        "{} is {}: if {} starts this command {} times, each copy trains the whole job; start it "
        "once with --world-size, and with --processes or --nodes for several processes",
        name,
        value,
        launcher,
        value);
  }
  return std::nullopt;
}

}  // namespace troupe::command

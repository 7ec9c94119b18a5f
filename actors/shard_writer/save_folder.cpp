#include "actors/shard_writer/save_folder.hpp"

#include "runtime/file/file.hpp"
#include "runtime/process/process_id.hpp"

#include <filesystem>
#include <fmt/format.h>

namespace troupe::actors {

std::optional<std::string> obstacle_to_saving(const messages::spawn_shard_writer& x) {
  if (x.generation != runtime::make_generation(0, 1) || !x.has_folder)
    return std::nullopt;
  const std::filesystem::path folder = x.job.save;
  std::error_code failure;
  const auto why
      = std::filesystem::is_directory(folder, failure)
            ? runtime::write_obstacle(folder / "checkpoint")
            : std::optional(fmt::format("there is no folder '{}'{}",
                                        folder.string(),
                                        failure ? ": " + failure.message() : std::string()));
  if (!why)
    return std::nullopt;
  return fmt::format(
      "process {} on host '{}' cannot save: {}; `checkpoints.save` must be a folder that all "
      "processes of the run see under one path and may write to",
      x.process,
      runtime::host_name(),
      *why);
}

}  // namespace troupe::actors

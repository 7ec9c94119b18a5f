// --run DIR of the commands that look at a run from outside.

#pragma once

#include "actors/command/command_line.hpp"
#include "runtime/process/run_folder.hpp"

#include <filesystem>
#include <memory>

namespace troupe::command {

std::shared_ptr<std::filesystem::path> declare_run(command_line& line);

/// Throws usage_error when it was not given, and as run_folder::open; of a --save folder it is the
/// run's folder below it.
runtime::run_folder open_run(const std::filesystem::path& given);

}  // namespace troupe::command

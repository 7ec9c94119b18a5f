// The run's folder, in the commands that look at a run from outside: as a word or as --run DIR.

#pragma once

#include "actors/command/command_line.hpp"
#include "runtime/process/run_folder.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace troupe::command {

struct named_run_folder {
  std::filesystem::path flag;
  std::vector<std::string> words;
};

std::shared_ptr<named_run_folder> declare_run(command_line& line);

/// Takes a --save folder for the run's folder below it. Throws usage_error unless exactly one
/// folder is named, and as run_folder::open.
runtime::run_folder open_run(const named_run_folder& given);

}  // namespace troupe::command

// The argument of commands that inspect a run from outside: its folder, as a word or as --run DIR.

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

/// Opens the run. A --save folder stands for the run's folder in it. Throws usage_error unless
/// exactly one folder is given, and as run_folder::open.
runtime::run_folder open_run(const named_run_folder& given);

}  // namespace troupe::command

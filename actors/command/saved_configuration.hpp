// The configuration of a run, kept with its checkpoints.

#pragma once

#include <filesystem>
#include <string>

namespace troupe::command {

inline constexpr const char* configuration_file = "config.yaml";

/// Writes `text` as FOLDER/config.yaml, at once or not at all. One that is there and says something
/// else becomes config.1.yaml, or the first number that is free; one that says the same stays as it
/// is. Logs what it did. The folder is locked by the caller. Throws io_error.
void save_configuration(const std::filesystem::path& folder, const std::string& text);

}  // namespace troupe::command

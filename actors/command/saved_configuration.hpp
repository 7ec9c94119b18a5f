// The configuration of a run, kept with its checkpoints.

#pragma once

#include <filesystem>
#include <string>

namespace troupe::command {

inline constexpr const char* configuration_file = "config.yaml";

/// Writes `text` as FOLDER/config.yaml, atomically. An existing file with other entries becomes
/// config.1.yaml, or the first free number; one with the same entries stays. A `load` that equals
/// `save` makes no difference. Logs what it did. The
/// caller has locked the folder. Throws io_error.
void save_configuration(const std::filesystem::path& folder, const std::string& text);

}  // namespace troupe::command

// File names in a checkpoint folder, and operations on them. Internal to runtime/checkpoint.

#pragma once

#include "runtime/core/ids.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

inline constexpr const char* manifest_file = "manifest.json";
inline constexpr const char* tracker_file = "latest_checkpointed_iteration.txt";
inline constexpr const char* lock_file = ".lock";

/// `by`: letters, digits and '-'; empty if only this process writes there.
std::string staging_folder(std::int64_t iteration,
                           generation_id generation,
                           std::uint64_t attempt = 0,
                           std::string_view by = {});
std::string replaced_folder(std::int64_t iteration);  ///< an older checkpoint while it is replaced
std::string removed_folder(std::int64_t iteration);   ///< a checkpoint while it is removed

/// Returns the iterations that have a folder, newest first; empty if `dir` does not exist.
std::vector<std::int64_t> iterations_in(const std::filesystem::path& dir);

/// Returns the iteration in the tracker, or nothing if there is no tracker. Throws input_error if
/// it is not an iteration.
std::optional<std::int64_t> tracked_iteration(const std::filesystem::path& dir);

/// Renames durably. Throws io_error.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

/// Removes a file or a folder with its content. Throws io_error.
void remove_all_of(const std::filesystem::path& path);

}  // namespace troupe::runtime

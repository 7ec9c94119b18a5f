// Names in a folder of checkpoints, for the sources of this room.

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

/// `by`: of letters, digits and '-'; empty: only this process writes in it.
std::string staging_folder(std::int64_t iteration,
                           generation_id generation,
                           std::uint64_t attempt = 0,
                           std::string_view by = {});
std::string replaced_folder(std::int64_t iteration);  ///< the older one, while it is replaced
std::string removed_folder(std::int64_t iteration);   ///< on its way out

/// The iterations that have a folder, newest first; none when there is no such folder.
std::vector<std::int64_t> iterations_in(const std::filesystem::path& dir);

/// What the tracker says: nothing when there is none. Throws input_error when it is no iteration.
std::optional<std::int64_t> tracked_iteration(const std::filesystem::path& dir);

/// Renames, and on failure throws io_error saying so.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

/// Removes a file, or a folder and all in it. Throws io_error.
void remove_all_of(const std::filesystem::path& path);

}  // namespace troupe::runtime

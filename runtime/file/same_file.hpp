// Detects when two paths lead to the same file, so that an output does not overwrite an input.

#pragma once

#include <filesystem>
#include <span>

namespace troupe::runtime {

/// True if both paths name the same existing file (device and inode, so links count too), or are
/// equal after links and dots are resolved. Empty paths and "-" name no file. Never throws: opening
/// an inaccessible path reports the error later.
bool name_one_file(const std::filesystem::path& a, const std::filesystem::path& b);

/// Throws input_error if `output`, given by `flag`, is one of `inputs`.
void require_no_input(const char* flag,
                      const std::filesystem::path& output,
                      std::span<const std::filesystem::path> inputs);

}  // namespace troupe::runtime

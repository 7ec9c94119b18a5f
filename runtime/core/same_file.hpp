// Whether two paths lead to one file, so that no output is written over what is read.

#pragma once

#include <filesystem>
#include <span>

namespace troupe::runtime {

/// True when both are there and are one file (device and inode: links, too), or when they are one
/// path once links and dots are followed, whether it is there or not. Empty paths and "-" name no
/// file. Never throws: what the system does not let us look at is told by who opens it.
bool name_one_file(const std::filesystem::path& a, const std::filesystem::path& b);

/// Throws input_error when `output`, which `flag` names, is one of the files that are read.
void require_no_input(const char* flag,
                      const std::filesystem::path& output,
                      std::span<const std::filesystem::path> inputs);

}  // namespace troupe::runtime

// A save folder that was removed, with its lock, while a run saves there.

#pragma once

#include "runtime/checkpoint/checkpoint.hpp"

#include <filesystem>
#include <memory>

namespace troupe::runtime {

/// Whether this process holds the lock of `dir`.
bool is_locked(const std::filesystem::path& dir);

/// For a process that has locked `dir`: the lock again, where the file that was locked is gone;
/// nothing where it still has it. Throws io_error, also where another process has it now
/// (ONE-WRITER).
std::unique_ptr<directory_lock> regained_lock(const std::filesystem::path& dir);

}  // namespace troupe::runtime

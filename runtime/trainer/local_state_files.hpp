// The files of one step in a folder of local states, written and read:
// docs/formats/local_states.md.

#pragma once

#include "runtime/trainer/local_states.hpp"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe::runtime {

std::string folder_of_process(int process);
std::string folder_of_step(std::uint64_t iteration);
/// Nothing: another name.
std::optional<int> process_of_folder(const std::string& name);
std::optional<std::uint64_t> step_of_folder(const std::string& name);

/// Aside, and visible when all of it is durable (LOCAL-1); `stop` gives it up. Throws io_error and
/// cancelled; nothing of it is left then, where the disk lets it be removed.
void write_step(const std::filesystem::path& in_process,
                const step_to_store& x,
                const std::atomic<bool>& stop);

/// Of the manifest. Throws input_error.
stored_step look_at_step(const std::filesystem::path& step);

/// Every byte of it held to its hash. Throws input_error.
rank_state read_rank(const std::filesystem::path& step, int rank);

}  // namespace troupe::runtime

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

/// Held by who writes the states of a process, and by who clears away what a writer has left: of
/// one open file at a time, so among threads, too. The kernel releases it with whoever dies.
class local_writer_lock {
 public:
  local_writer_lock() = default;
  local_writer_lock(local_writer_lock&&) = delete;
  ~local_writer_lock();

  /// Waits for who holds it. Where the file system has no locks nobody is kept out, as nobody
  /// clears away there. Throws io_error: its file, in the folder of the run, cannot be made.
  void take(const std::filesystem::path& folder, int process);
  /// False: somebody holds it, or nobody can tell.
  bool try_take(const std::filesystem::path& folder, int process);

 private:
  int descriptor_ = -1;
};

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

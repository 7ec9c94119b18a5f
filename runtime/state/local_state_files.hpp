// Reads and writes the files of one step in a folder of local states: docs/formats/local_states.md.

#pragma once

#include "runtime/state/local_states.hpp"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe::runtime {

std::string folder_of_process(int process);
std::string folder_of_step(std::uint64_t iteration);
/// Empty if the name has another form.
std::optional<int> process_of_folder(const std::string& name);
std::optional<std::uint64_t> step_of_folder(const std::string& name);

/// A file lock for writing the states of a process and for clearing leftovers of writers. It
/// belongs to one open file, so it also excludes other threads. The kernel releases it when its
/// process dies.
class local_writer_lock {
 public:
  local_writer_lock() = default;
  local_writer_lock(local_writer_lock&&) = delete;
  ~local_writer_lock();

  /// Blocks until the lock is free. Without lock support of the file system it excludes no other
  /// writer, and nothing is cleared there. Throws io_error if the lock file in the run's folder
  /// cannot be created.
  void take(const std::filesystem::path& folder, int process);
  /// False: the lock is held, or locks are not supported.
  bool try_take(const std::filesystem::path& folder, int process);

 private:
  int descriptor_ = -1;
};

/// Writes under another name and renames when everything is durable (LOCAL-1). `stop` cancels.
/// Throws io_error and cancelled, and removes the partial step if the disk allows it.
void write_step(const std::filesystem::path& in_process,
                const step_to_store& x,
                const std::atomic<bool>& stop);

/// Reads the manifest. Throws input_error.
stored_step look_at_step(const std::filesystem::path& step);

/// Verifies each byte against its hash. Throws input_error.
rank_state read_rank(const std::filesystem::path& step, int rank);

}  // namespace troupe::runtime

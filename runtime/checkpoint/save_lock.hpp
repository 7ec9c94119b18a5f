// The lock of a save folder, held for as long as a run saves there.

#pragma once

#include "runtime/checkpoint/checkpoint.hpp"

#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>

namespace troupe::runtime {

/// A run's directory_lock, which outlives the folder: where that is removed while the run goes on,
/// it is locked again (ONE-WRITER). Any thread.
class save_lock {
 public:
  /// Nothing is locked yet.
  explicit save_lock(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Throws as directory_lock does.
  void take();

  /// Before each save. True: the folder was removed, or its lock, and is locked again. Where `take`
  /// has failed it is taken as soon as it is free. Throws io_error, also where the folder was
  /// removed and another process has it now.
  bool regain();

 private:
  const std::filesystem::path folder_;
  std::mutex mutex_;
  std::unique_ptr<directory_lock> lock_;  ///< null: it was not to be had yet
};

}  // namespace troupe::runtime

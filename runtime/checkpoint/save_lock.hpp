// The lock of a save folder, held while a run saves there.

#pragma once

#include "runtime/checkpoint/checkpoint.hpp"

#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>

namespace troupe::runtime {

/// A run's directory_lock. If the folder is removed during the run, regain() locks it again
/// (ONE-WRITER). Thread-safe.
class save_lock {
 public:
  /// Does not lock yet.
  explicit save_lock(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Throws as directory_lock does.
  void take();

  /// Call it before each save. Returns true if the folder or its lock was removed and is locked
  /// again. If take() failed, locks the folder as soon as it is free. Throws io_error, also if
  /// another process locked the folder after its removal.
  bool regain();

 private:
  const std::filesystem::path folder_;
  std::mutex mutex_;
  std::unique_ptr<directory_lock> lock_;  ///< null: not locked yet
};

}  // namespace troupe::runtime

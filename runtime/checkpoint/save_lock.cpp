#include "runtime/checkpoint/save_lock.hpp"

#include "runtime/core/error.hpp"

namespace troupe::runtime {

void save_lock::take() {
  const std::lock_guard guard(mutex_);
  lock_ = std::make_unique<directory_lock>(folder_);
}

bool save_lock::regain() {
  const std::lock_guard guard(mutex_);
  const bool had_it = lock_ != nullptr;
  if (had_it && lock_->is_there())
    return false;
  try {
    lock_ = std::make_unique<directory_lock>(folder_);
  } catch (const input_error& other) {
    if (had_it)
      throw io_error("the save folder was removed during this run, and {}", other.what());
  }
  return had_it;
}

}  // namespace troupe::runtime

// What a stage gives to a checkpoint: copies of its state in host memory, and who waits for them.

#pragma once

#include "messages/checkpoint/snapshot.hpp"
#include "runtime/core/cancel.hpp"
#include "runtime/core/waiting.hpp"
#include "runtime/trainer/worker.hpp"

#include <mutex>
#include <vector>

namespace troupe::actors {

/// A snapshot that is read beside the lane. Any thread.
class snapshot_reading {
 public:
  /// It is over, or was given up. Wakes who waits.
  void end();
  /// Until it has ended. Throws `cancelled` as soon as the token is set before.
  void wait(const runtime::cancel_token& token) const;

 private:
  mutable std::mutex mutex_;
  mutable runtime::wait_condition changed_;
  bool ended_ = false;
};

/// Each shard in host memory of its own. From a device through a little that is pinned; waits until
/// all is there. Throws `cancelled` between two shards once the token is set, and io_error where
/// the host has too little memory.
std::vector<runtime::tensor_shard<runtime::tensor>> copied(
    const std::vector<runtime::state_shard>& shards,
    runtime::stream& by,
    const runtime::cancel_token& token);

}  // namespace troupe::actors

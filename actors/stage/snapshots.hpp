// Snapshots for a checkpoint: copies of a stage's state in host memory, and waits for them.

#pragma once

#include "messages/checkpoint/snapshot.hpp"
#include "runtime/core/cancel.hpp"
#include "runtime/core/waiting.hpp"
#include "runtime/trainer/worker.hpp"

#include <mutex>
#include <vector>

namespace troupe::actors {

/// A snapshot that the saver reads beside the lane. Any thread.
class snapshot_reading {
 public:
  /// Marks the reading as finished or abandoned, and wakes waiting threads.
  void end();
  /// Waits for end(). Throws `cancelled` if the token is cancelled first.
  void wait(const runtime::cancel_token& token) const;

 private:
  mutable std::mutex mutex_;
  mutable runtime::wait_condition changed_;
  bool ended_ = false;
};

/// Copies each shard into its own host memory, from a device through a small pinned buffer. Blocks
/// until all copies are complete. Throws `cancelled` between two shards if the token is cancelled,
/// and io_error if the host lacks memory.
std::vector<runtime::tensor_shard<runtime::tensor>> copied(
    const std::vector<runtime::state_shard>& shards,
    runtime::stream& by,
    const runtime::cancel_token& token);

}  // namespace troupe::actors

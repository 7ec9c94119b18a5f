// What the workers of one process find each other by: their memory pools and their groups.

#pragma once

#include "runtime/collective/local/local_group.hpp"
#include "runtime/collective/nccl_group.hpp"
#include "runtime/core/cancel.hpp"
#include "runtime/device/memory_pool.hpp"
#include "runtime/trainer/job.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace troupe::actors {

/// The memory pools of the workers of this process. Any thread.
class pool_registry {
 public:
  void add(int rank, runtime::memory_pool pool);
  /// Largest use of each so far, in bytes, by rank.
  std::map<int, std::size_t> peaks() const;

 private:
  mutable std::mutex mutex_;
  std::map<int, runtime::memory_pool> pools_;
};

/// Where the workers of several simulated processes meet in one. Any thread.
class group_meeting {
 public:
  /// The group of that name and generation; the first caller makes it.
  std::shared_ptr<runtime::local_group> at(std::uint64_t generation,
                                           const std::string& name,
                                           runtime::axis along,
                                           int size);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::uint64_t, std::string>, std::shared_ptr<runtime::local_group>> groups_;
};

/// The groups of one generation. Any thread.
class group_registry {
 public:
  /// With a meeting its groups are those of all who meet there, and this token releases but the
  /// ranks that join here.
  explicit group_registry(runtime::cancel_token token,
                          std::uint64_t generation = 0,
                          runtime::collectives by = runtime::collectives::local,
                          std::shared_ptr<group_meeting> meeting = {});

  /// The end of rank `rank`, on that device, in the group called `name`; the first caller makes the
  /// group. Each rank joins once, all with the same axis and size.
  std::unique_ptr<runtime::communicator> join(
      const std::string& name, runtime::axis along, int size, int rank, int device = 0);

  const runtime::cancel_token& token() const { return token_; }

 private:
  runtime::cancel_token token_;
  std::uint64_t generation_;
  std::shared_ptr<group_meeting> meeting_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<runtime::local_group>> groups_;
  std::unique_ptr<runtime::nccl_groups> by_nccl_;  ///< null: they read each other's memory
};

}  // namespace troupe::actors

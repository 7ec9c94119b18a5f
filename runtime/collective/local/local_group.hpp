// Collectives between threads of one process: everybody reads everybody's memory.

#pragma once

#include "runtime/collective/communicator.hpp"
#include "runtime/core/cancel.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>

namespace troupe::runtime {

/// What the ranks of one group share. Made once, given to each rank's communicator.
class local_group {
 public:
  local_group(axis along, int size, cancel_token generation);

 private:
  friend class local_communicator;

  /// Returns when all have arrived. Throws `cancelled`.
  void meet();

  /// For the time of its life everybody's arrays can be read: nobody leaves a cancelled generation
  /// meanwhile. That time is bounded, as nothing waits in it. Throws `cancelled`.
  class reading {
   public:
    explicit reading(local_group& of);
    ~reading();
    reading(const reading&) = delete;
    reading& operator=(const reading&) = delete;

   private:
    local_group& of_;
  };

  [[noreturn]] void leave(std::unique_lock<std::mutex>& lock);

  const axis along_;
  const int size_;
  const cancel_token token_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  int readers_ = 0;
  std::uint64_t round_ = 0;
  std::vector<std::vector<float*>> parts_;  ///< of each rank; valid between two meetings
  std::shared_ptr<void> waker_;
};

class local_communicator final : public communicator {
 public:
  local_communicator(std::shared_ptr<local_group> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  axis along() const override { return group_->along_; }
  int rank() const override { return rank_; }
  int size() const override { return group_->size_; }
  void barrier() override { group_->meet(); }
  void all_reduce_sum(stream& on, std::span<float* const> parts, std::int64_t n) override;

 private:
  std::shared_ptr<local_group> group_;
  int rank_;
};

}  // namespace troupe::runtime

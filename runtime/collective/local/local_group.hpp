// Collectives between threads of one process: everybody reads everybody's memory.

#pragma once

#include "runtime/collective/call.hpp"
#include "runtime/core/cancel.hpp"
#include "runtime/core/waiting.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe::runtime {

/// What the ranks of one group share. Made once, given to each rank's communicator.
class local_group final : public awaited, public std::enable_shared_from_this<local_group> {
 public:
  local_group(axis along, int size, cancel_token generation);

  /// What the group is called, and who on the board (device/lane_board.hpp) is this rank of it. By
  /// default "the dp group" and "rank 1 of the dp group".
  void introduce(const std::string& group, int rank, std::string who);

  /// In what operation rank `rank` waits, and who has not come to it. Of a rank that does not wait:
  /// nothing.
  wait_report missing(std::uint64_t rank) const override;

  /// From now on this rank is released by a token of its own, as ranks of several processes are.
  /// Before the rank's first operation. Once it has left, the others wait until their own tokens
  /// are set.
  void release_by(int rank, const cancel_token& own);

 private:
  friend class local_communicator;

  /// What a rank brings to the first meeting of an operation; nobody changes it before the last.
  struct offer {
    collective_call call = {};
    std::vector<const void*> parts = {};  ///< as many as the call says
    void* to = nullptr;
  };

  /// Returns when all have arrived; the last one checks that all came for the same thing. What the
  /// rank runs on its stream from then on comes after what everybody had run before. Throws
  /// `cancelled`, and broken_promise on every rank.
  void meet(int rank, stream* stream);

  /// For the time of its life this rank can read everybody's arrays: nobody leaves a cancelled
  /// generation meanwhile. That time is bounded, as nothing waits in it. Throws `cancelled`.
  class reading {
   public:
    reading(local_group& of, int rank);
    ~reading();
    reading(const reading&) = delete;
    reading& operator=(const reading&) = delete;

   private:
    local_group& of_;
  };

  [[noreturn]] void leave(std::unique_lock<std::mutex>& lock);
  /// Why this rank waits for the others. With the lock.
  wait_reason meeting(int rank) const;
  bool is_released(int rank) const { return tokens_[std::size_t(rank)].is_cancelled(); }
  std::shared_ptr<void> waker(const cancel_token& of);
  void check_offers();

  const axis along_;
  const int size_;
  std::vector<cancel_token> tokens_;  ///< of each rank
  std::string name_;                  ///< of the group
  std::vector<std::string> members_;  ///< the names of its ranks on the board
  mutable std::mutex mutex_;
  wait_condition changed_;
  int arrived_ = 0;
  std::vector<char> here_;  ///< of each rank: it has come to this meeting
  int readers_ = 0;
  bool left_ = false;  ///< somebody has: arrays of theirs may be gone
  std::uint64_t round_ = 0;
  std::vector<offer> offers_;  ///< of each rank; valid between two meetings
  /// Where each rank's stream was when it arrived, of this meeting and the one before: who is a
  /// meeting ahead writes to the other.
  std::vector<std::shared_ptr<device_event>> points_[2];
  std::vector<std::shared_ptr<device_queue>> queues_;  ///< of each rank that has come, if any
  std::string broken_;                                 ///< what the ranks disagreed on
  std::vector<std::shared_ptr<void>> wakers_;
};

class local_communicator final : public communicator {
 public:
  local_communicator(std::shared_ptr<local_group> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  axis along() const override { return group_->along_; }
  int rank() const override { return rank_; }
  int size() const override { return group_->size_; }
  void barrier() override;
  void all_reduce_sum(stream& stream,
                      dtype type,
                      std::span<const void* const> parts,
                      void* to,
                      std::int64_t n) override;
  void reduce_scatter_sum(stream& stream,
                          dtype type,
                          std::span<const void* const> parts,
                          void* to,
                          offsets ends) override;
  void all_gather(stream& stream, const void* mine, void* to, offsets ends) override;
  void all_to_all(
      stream& stream, const void* from, offsets from_ends, void* to, offsets to_ends) override;
  void broadcast(stream& stream, void* data, std::int64_t bytes, int root) override;

 private:
  using offer = local_group::offer;

  /// The first meeting of an operation: everybody has come for the same thing.
  void meet(stream& stream, offer mine);
  /// Sums elements [begin, end) of everybody's parts.
  void sum(stream& stream, dtype type, void* to, std::int64_t begin, std::int64_t end);

  std::shared_ptr<local_group> group_;
  int rank_;
};

/// The group of one: nothing to wait for.
std::shared_ptr<communicator> alone(axis along);

}  // namespace troupe::runtime

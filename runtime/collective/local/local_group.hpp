// Collectives between threads of one process, which read each other's memory directly.

#pragma once

#include "runtime/collective/call.hpp"
#include "runtime/core/cancel.hpp"
#include "runtime/core/waiting.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe::runtime {

/// State shared by the ranks of a group. Create it once and give it to each rank's communicator.
class local_group final : public awaited, public std::enable_shared_from_this<local_group> {
 public:
  local_group(axis_set along, int size, cancel_token generation);

  /// Sets the name of the group and of this rank on the board (device/lane_board.hpp). Default:
  /// "the dp group" and "rank 1 of the dp group".
  void introduce(const std::string& group, int rank, std::string who);

  /// The operation that rank `rank` waits in, and the ranks that have not arrived; empty if it does
  /// not wait.
  wait_report missing(std::uint64_t rank) const override;

  /// Gives this rank a cancel token of its own, as for ranks in several processes. Call it before
  /// the rank's first operation. Once the rank has left, other ranks wait until their own tokens
  /// are set.
  void release_by(int rank, const cancel_token& own);

 private:
  friend class local_communicator;

  /// A rank's arguments at the first meeting of an operation; constant until the last meeting.
  struct offer {
    collective_call call = {};
    std::vector<const void*> parts = {};  ///< call.parts arrays
    void* to = nullptr;
  };

  /// Waits until all ranks have arrived; the last one compares their calls. Later work on this
  /// rank's stream is ordered after all earlier work of the other ranks' streams. Throws
  /// `cancelled`, and broken_promise on every rank.
  void meet(int rank, stream* stream);

  /// While it exists, this rank may read the arrays of all ranks: no rank leaves a cancelled
  /// generation meanwhile. Keep it short and do not wait in it. Throws `cancelled`.
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
  /// Why this rank waits. Call it with the lock held.
  wait_reason meeting(int rank) const;
  bool is_released(int rank) const { return tokens_[std::size_t(rank)].is_cancelled(); }
  std::shared_ptr<void> waker(const cancel_token& of);
  void check_offers();

  const axis_set along_;
  const int size_;
  std::vector<cancel_token> tokens_;  ///< per rank
  std::string name_;
  std::vector<std::string> members_;  ///< names of the ranks on the board
  mutable std::mutex mutex_;
  wait_condition changed_;
  int arrived_ = 0;
  std::vector<char> here_;  ///< per rank: has arrived at this meeting
  int readers_ = 0;
  bool left_ = false;  ///< a rank has left, and its arrays may be gone
  std::uint64_t round_ = 0;
  std::vector<offer> offers_;  ///< per rank; valid between two meetings
  /// Each rank's stream position at its arrival, for this meeting and the previous one: a rank may
  /// be one meeting ahead.
  std::vector<std::shared_ptr<device_event>> points_[2];
  std::vector<std::shared_ptr<device_queue>> queues_;  ///< per rank that has arrived; may be null
  std::string broken_;                                 ///< disagreement of the ranks
  std::vector<std::shared_ptr<void>> wakers_;
  std::vector<std::uint64_t> waited_ns_;  ///< per rank; used on its own thread
};

class local_communicator final : public communicator {
 public:
  local_communicator(std::shared_ptr<local_group> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  axis_set along() const override { return group_->along_; }
  int rank() const override { return rank_; }
  int size() const override { return group_->size_; }
  std::uint64_t waited_ns() const override { return group_->waited_ns_[std::size_t(rank_)]; }
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

  /// First meeting of an operation: compares the calls.
  void meet(stream& stream, offer mine);
  /// Sums elements [begin, end) of all ranks' parts.
  void sum(stream& stream, dtype type, void* to, std::int64_t begin, std::int64_t end);

  std::shared_ptr<local_group> group_;
  int rank_;
};

/// A group of one rank; never waits.
std::shared_ptr<communicator> alone(axis_set along);

}  // namespace troupe::runtime

// State of a group shared by its ranks in one process; see nccl_group.hpp.

#pragma once

#include "runtime/collective/nccl_group.hpp"
#include "runtime/collective/nccl_ledger.hpp"
#include "runtime/core/waiting.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <set>
#include <thread>
#include <vector>

namespace troupe::runtime {

/// Polls NCCL for asynchronous failures. Any thread.
class nccl_watch {
 public:
  ~nccl_watch();
  void add(nccl_group* group);
  /// The group is not accessed after the return.
  void remove(nccl_group* group);

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<nccl_group*> groups_;
  bool over_ = false;
  std::jthread thread_;  ///< started with the first group
};

struct nccl_terms {
  cancel_token token;
  std::uint64_t generation;
  collective_mode mode;
  std::shared_ptr<nccl_meeting> ids;
  std::int64_t scratch;
  std::shared_ptr<nccl_watch> watch;
};

/// Any thread. Stopping is final; all ranks get the first cause.
class nccl_group final : public awaited, public std::enable_shared_from_this<nccl_group> {
 public:
  /// The size of a child is set later by `sized`, once NCCL has made it. Of `like` only what is
  /// equal for all ranks counts.
  nccl_group(const nccl_member& like,
             nccl_terms terms,
             std::shared_ptr<nccl_group> parent = nullptr);
  /// Closes all ends in parallel.
  ~nccl_group() override;
  nccl_group(const nccl_group&) = delete;
  nccl_group& operator=(const nccl_group&) = delete;

  const std::string& name() const { return name_; }
  axis_set along() const { return along_; }
  int size() const;
  void sized(int size);
  const nccl_terms& terms() const { return terms_; }

  /// Adds a rank. Checks COLLECTIVE-6, and that no two ranks share a device.
  void take(const nccl_member& member);
  /// The group for a color of the rank's next split.
  std::shared_ptr<nccl_group> child(axis_set along, int rank, int color);

  /// Creates a rank's end, which is aborted with the group. Throws if the group was stopped.
  std::shared_ptr<nccl_end> make_end(int rank, int device);
  /// Adds a connected end to the watch.
  void connected(const std::shared_ptr<nccl_end>& end);

  /// Records the rank's next operation and checks COLLECTIVE-1 and -4.
  void enter(int rank, const collective_call& call, communicator::offsets to_ends = {});
  void enter(int rank, std::span<const nccl_send> sends, std::span<const nccl_receive> receives);

  /// Calls NCCL on the end and sleeps until the call has settled. Throws the group's cause if it
  /// was stopped.
  template <class Call>
  void carry_out(int rank, nccl_end& end, Call&& call) {
    check();
    try {
      call(end);
      wait_until(rank, [&] { return end.settled(); });
    } catch (const nccl_end::failure& x) {
      fail(x);
      leave();
    }
  }
  /// Polls `condition` with increasing breaks. Throws the group's cause if it was stopped.
  void wait_until(int rank, const std::function<bool()>& condition);

  /// Registers a queue that the group works on. `cancelled` is thrown only after the queue has
  /// passed.
  void works_on(const std::shared_ptr<device_queue>& queue);

  /// Records that operations of the rank are queued between two points of its queue.
  void queued(int rank, std::shared_ptr<device_event> before, std::shared_ptr<device_event> after);

  /// All other ranks, while the device is in an operation: a queue does not tell which one it waits
  /// for. The rank itself, while its device is at other work.
  wait_report missing(std::uint64_t rank) const override;

  /// Throws the group's cause if it was stopped.
  void check();

  /// A process is lost: stops the group if it has ranks there.
  void lose(int process, const std::string& why);

  /// Called by the watch.
  void look();

 private:
  enum class cause { none, cancelled, promise, failure, lost };
  void fail(const nccl_end::failure& x);
  void stop(cause why, const std::string& text);
  void promise_broken(const std::string& text);
  [[noreturn]] void leave();

  const std::string name_;
  const axis_set along_;
  int size_;
  const std::vector<int> processes_;
  const std::vector<std::string> names_;
  const nccl_terms terms_;
  const std::shared_ptr<nccl_group> parent_;
  mutable std::mutex mutex_;  ///< lock order: parent before child
  std::condition_variable changed_;
  std::map<int, int> device_of_;  ///< of the ranks added by `take`
  std::map<int, int> splits_;     ///< splits called by each rank
  struct span {
    std::shared_ptr<device_event> before, after;
  };
  static bool is_at(std::deque<span>& of);
  mutable std::map<int, std::deque<span>> queued_;  ///< by rank; not passed yet, as far as known
  std::map<std::string, std::weak_ptr<nccl_group>> children_;
  std::set<nccl_group*> living_children_;
  int members_ = 0;  ///< ranks in this process
  std::vector<std::shared_ptr<nccl_end>> ends_, connected_;
  std::set<std::shared_ptr<device_queue>> queues_;
  nccl_ledger ledger_;
  cause why_ = cause::none;
  std::string text_;
  int aborting_ = 0;
  std::vector<std::jthread> aborts_;
  std::shared_ptr<void> waker_;
};

}  // namespace troupe::runtime

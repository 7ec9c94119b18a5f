// What the ranks of one process share of a group: nccl_group.hpp tells what comes of it.

#pragma once

#include "runtime/collective/nccl_group.hpp"
#include "runtime/collective/nccl_ledger.hpp"

#include <functional>
#include <set>
#include <thread>
#include <vector>

namespace troupe::runtime {

/// Asks NCCL again and again whether something has failed that nobody waits for. Any thread.
class nccl_watch {
 public:
  ~nccl_watch();
  void add(nccl_group* group);
  /// It is not looked at any more when this returns.
  void remove(nccl_group* group);

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<nccl_group*> groups_;
  bool over_ = false;
  std::jthread thread_;  ///< once there is a group
};

struct nccl_terms {
  cancel_token token;
  std::uint64_t generation;
  collective_mode mode;
  std::shared_ptr<nccl_meeting> ids;
  std::int64_t scratch;
  std::shared_ptr<nccl_watch> watch;
};

/// Any thread. A group that was stopped stays so; the first cause is what everybody is told.
class nccl_group : public std::enable_shared_from_this<nccl_group> {
 public:
  /// A child's size is known when NCCL has made it: `sized`.
  nccl_group(std::string name,
             axis along,
             int size,
             nccl_terms terms,
             std::shared_ptr<nccl_group> parent = nullptr);
  /// Closes its ends, all at the same time.
  ~nccl_group();
  nccl_group(const nccl_group&) = delete;
  nccl_group& operator=(const nccl_group&) = delete;

  const std::string& name() const { return name_; }
  axis along() const { return along_; }
  int size() const;
  void sized(int size);
  const nccl_terms& terms() const { return terms_; }

  /// Checks COLLECTIVE-6, and that no two ranks are on one device.
  void take(const nccl_member& member);
  /// The group of a colour of the rank's next split.
  std::shared_ptr<nccl_group> child(axis along, int rank, int color);

  /// A rank's end, which is aborted with the group. Throws when that was stopped.
  std::shared_ptr<nccl_end> make_end(int rank, int device);
  /// It can be asked how it goes.
  void connected(const std::shared_ptr<nccl_end>& end);

  /// The rank comes for its next operation: what communicator.hpp says of COLLECTIVE-1, -4.
  void enter(int rank, const collective_call& call, communicator::offsets to_ends = {});
  void enter(int rank, std::span<const nccl_send> sends, std::span<const nccl_receive> receives);

  /// Calls NCCL by the end, and sleeps until it has settled. Throws what the group is told.
  template <class Call>
  void carry_out(nccl_end& end, Call&& call) {
    check();
    try {
      call(end);
      wait_until([&] { return end.settled(); });
    } catch (const nccl_end::failure& x) {
      stop(cause::failure, x.what());
      leave();
    }
  }
  /// Sleeps, with ever longer breaks, until `condition`. Throws what the group is told.
  void wait_until(const std::function<bool()>& condition);

  /// The group's work goes to this queue: nobody is told `cancelled` before that has passed.
  void works_on(const std::shared_ptr<device_queue>& queue);

  /// Throws what the group is told, where it was stopped.
  void check();

  /// Of the watch.
  void look();

 private:
  enum class cause { none, cancelled, promise, failure };
  void stop(cause why, const std::string& text);
  void promise_broken(const std::string& text);
  [[noreturn]] void leave();

  const std::string name_;
  const axis along_;
  int size_;
  const nccl_terms terms_;
  const std::shared_ptr<nccl_group> parent_;
  mutable std::mutex mutex_;  ///< a parent's before a child's
  std::condition_variable changed_;
  std::map<int, int> device_of_;  ///< of the ranks that were taken
  std::map<int, int> splits_;     ///< that each rank has called for
  std::map<std::string, std::weak_ptr<nccl_group>> children_;
  std::set<nccl_group*> living_children_;
  int members_ = 0;  ///< ranks that are here
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

// Collectives between devices by NCCL, with one rank per device.
//
//   nccl_groups groups(generation, 3, collective_mode::ordered);
//   auto mine = make_nccl_communicator(groups, {"data of part 0.0", axis::data, rank, size,
//   device});
//
// They follow communicator.hpp, with these additions:
//
// An operation returns once it is in the stream's queue. NCCL may need the other ranks for that (in
// the first operations, while it connects), so the caller may sleep; cancelling the generation
// wakes it. If its peer does not come, a queue waits on the device until the generation is
// cancelled. Its results are then undefined, so a thread that waits for a queue checks the token
// before it uses them (communicator::check).
//
// Ordered sums move bytes by NCCL and add them on the receiver in rank order, like every other
// transport. All parts of all ranks travel: (parts + 1) (size - 1) / size arrays per rank, where a
// ring all-reduce moves 2 (size - 1) / size. An ordered sum takes scratch memory from the stream's
// pool, at most `ordered_scratch` bytes. Fast sums add a rank's own parts and leave the rest to
// NCCL. NCCL's order depends on sizes, devices and version, so fast sums are reproducible only
// between equal runs. Operations other than sums are the same in both modes.
//
// COLLECTIVE-1 and -4 are checked between the ranks of one process, without waiting. If a later
// rank's call differs, it throws broken_promise and the group is aborted, so that no rank hangs.
// Calls of ranks in other processes are not compared; on a difference, queues wait until the
// generation is cancelled.
//
// If NCCL fails on one rank, also asynchronously, the group's ranks in this process are aborted and
// throw device_failure with the first cause; peer_lost, if ranks are in several processes and NCCL
// reports a connection.
//
// Ranks may be in several processes. The first rank's process makes the group's id
// (nccl_groups::id_of); a message takes it to the others (nccl_groups::give). When a process is
// lost, `lose` aborts the groups with ranks in it, and their ranks throw peer_lost with its cause.
//
// A communicator connects in the first operation on it. All ranks of a group call its operations in
// one order, so an order of first operations that cannot deadlock creates without deadlock, too.

#pragma once

#include "runtime/collective/communicator.hpp"
#include "runtime/collective/nccl/nccl.hpp"
#include "runtime/core/cancel.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// Order of sums. Part of a run's identity.
enum class collective_mode : std::uint8_t { ordered, fast };

/// Maximum scratch of one ordered sum in bytes; at least 64 elements per array are allocated.
inline constexpr std::int64_t ordered_scratch = std::int64_t{64} << 20;

/// Rendezvous of the ranks for their group's id. Any thread.
class nccl_meeting {
 public:
  /// Publishes the id; a group has one per generation. Called where the message of rank 0 arrives,
  /// perhaps once for each rank.
  void give(const std::string& group, std::uint64_t generation, const nccl_id& id);
  /// For rank 0: the id, which the first call makes and publishes. Throws device_failure.
  nccl_id made(const std::string& group, std::uint64_t generation);
  /// Empty: it has not come yet.
  std::optional<nccl_id> find(const std::string& group, std::uint64_t generation) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::uint64_t>, nccl_id> ids_;
};

class nccl_communicator;
class nccl_group;
class nccl_watch;

struct nccl_member {
  std::string group;  ///< name for error messages
  axis_set along;
  int rank;
  int size;
  int device;  ///< device of the rank's streams; unique in the group
  /// The process of each rank. Empty: all are in this one.
  std::vector<int> processes = {};
  /// Names of the ranks for the failure detector (device/lane_board.hpp); may be empty.
  std::vector<std::string> names = {};
};

/// The groups of one generation. A rank closes when both this object and its communicator are
/// destroyed.
class nccl_groups {
 public:
  nccl_groups(cancel_token generation,
              std::uint64_t number,
              collective_mode mode,
              std::shared_ptr<nccl_meeting> ids = std::make_shared<nccl_meeting>(),
              std::int64_t scratch = ordered_scratch);
  ~nccl_groups();
  nccl_groups(const nccl_groups&) = delete;
  nccl_groups& operator=(const nccl_groups&) = delete;

  // Any thread.
  /// For rank 0 of a group with ranks in several processes: the id for the others.
  nccl_id id_of(const std::string& group) { return ids_->made(group, number_); }
  void give(const std::string& group, const nccl_id& id) { ids_->give(group, number_, id); }
  /// Aborts the groups with ranks in that process, also those that are made later.
  void lose(int process, const std::string& why);

 private:
  friend std::unique_ptr<nccl_communicator> make_nccl_communicator(nccl_groups& of,
                                                                   const nccl_member& member);

  const cancel_token token_;
  const std::uint64_t number_;
  const collective_mode mode_;
  const std::shared_ptr<nccl_meeting> ids_;
  const std::int64_t scratch_;
  const std::shared_ptr<nccl_watch> watch_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<nccl_group>> groups_;
  std::map<int, std::string> lost_;  ///< processes, and how
};

/// Operations require a stream on the communicator's device (COLLECTIVE-5).
class nccl_communicator : public communicator {
 public:
  /// Waits until all ranks have connected. Otherwise the first operation does it.
  virtual void connect() = 0;

  /// Runs all transfers at once; those between two ranks are matched in order. Both sides agree on
  /// number and sizes (COLLECTIVE-4).
  virtual void exchange(stream& stream,
                        std::span<const nccl_send> sends,
                        std::span<const nccl_receive> receives)
      = 0;
  void send(stream& stream, const void* from, std::int64_t bytes, int to) {
    const nccl_send one{from, bytes, to};
    exchange(stream, {&one, 1}, {});
  }
  void receive(stream& stream, void* to, std::int64_t bytes, int from) {
    const nccl_receive one{to, bytes, from};
    exchange(stream, {}, {&one, 1});
  }

  /// A group of the ranks with the same color, ordered by key, then by rank; null for a negative
  /// color. All ranks call it. Sleeps until this rank's queued work is done. It is aborted with
  /// this group.
  virtual std::unique_ptr<nccl_communicator> split(axis_set along, int color, int key) = 0;

  /// Registers device memory for transfers without a copy, until the handle or the group is
  /// destroyed. Use it for long-lived buffers.
  [[nodiscard]] virtual std::shared_ptr<void> hold(void* at, std::size_t bytes) = 0;
};

/// Creates one rank's end, without waiting. Each rank is created once, with the same description of
/// the group (COLLECTIVE-6). Throws backend_missing if NCCL or the device is missing, and
/// input_error if two ranks share a device.
std::unique_ptr<nccl_communicator> make_nccl_communicator(nccl_groups& of,
                                                          const nccl_member& member);

}  // namespace troupe::runtime

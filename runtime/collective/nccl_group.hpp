// Collectives between devices, by NCCL: one rank a device.
//
//   nccl_groups groups(generation, 3, collective_mode::ordered);
//   auto mine = make_nccl_communicator(groups, {"data of part 0.0", axis::data, rank, size,
//   device});
//
// As communicator.hpp says, and:
//
// An operation returns when it has been put on the stream's queue. For that NCCL may need the other
// ranks (in the first operations, while it makes connections), so the caller may sleep; a cancelled
// generation wakes it. A queue whose peer does not come waits, on the device, until the generation
// is cancelled; what it then leaves in its arrays means nothing, so a waiter for a queue looks
// at the token before what was computed is used.
//
// Ordered sums move bytes by NCCL and add them on the receiver, in rank order, as every other
// transport does. All parts of all ranks travel: beside a ring's two times (size - 1) / size of the
// array they take parts + 1 times that, and scratch from the stream's pool for what arrives, at
// most `ordered_scratch` bytes. Fast sums add a rank's parts first and leave the rest to NCCL,
// whose order depends on sizes, devices and version: they are equal to themselves in a second run,
// to nothing else. Whatever only moves is the same in both.
//
// COLLECTIVE-1 and -4 are checked between the ranks of one process, without waiting for anybody:
// a rank that comes second and for something else throws broken_promise, and the group is aborted,
// so that nobody hangs. Sizes of ranks elsewhere are not compared; where they differ, queues wait
// until the generation is cancelled.
//
// When NCCL fails on one rank, or tells of it later, the group's ranks in this process are aborted
// and throw device_failure with the first cause.
//
// Between processes the same communicators will serve: a nccl_id then travels in a message to the
// ranks elsewhere (nccl_meeting::give on their side), and stages hand on tensors by `send` and
// `receive`. Within a process a ticket is a shared tensor, and needs neither.

#pragma once

#include "runtime/collective/communicator.hpp"
#include "runtime/collective/nccl/nccl.hpp"
#include "runtime/core/cancel.hpp"

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace troupe::runtime {

/// How sums are taken. Part of a run's identity.
enum class collective_mode : std::uint8_t { ordered, fast };

/// Most scratch that one ordered sum takes, unless 64 elements of each array are more.
inline constexpr std::int64_t ordered_scratch = std::int64_t{64} << 20;

/// Where ranks find their group's id. Any thread.
class nccl_meeting {
 public:
  /// Once for a group of a generation; by rank 0, or by one that was told of it.
  void give(const std::string& group, std::uint64_t generation, const nccl_id& id);
  /// Sleeps until it was given. Throws `cancelled`.
  nccl_id wait_for(const std::string& group, std::uint64_t generation, const cancel_token& token);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<std::string, std::uint64_t>, nccl_id> ids_;
};

class nccl_communicator;
class nccl_group;
class nccl_watch;

struct nccl_member {
  std::string group;  ///< its name, as errors tell it
  axis along;
  int rank;
  int size;
  int device;  ///< that the rank's streams work on; no other rank of the group is on it
};

/// The groups of one generation. Ranks of this process are closed with it and with their
/// communicators, whichever dies last.
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
};

/// Its operations take streams on its device, others break a promise (COLLECTIVE-5).
class nccl_communicator : public communicator {
 public:
  /// Returns when all ranks have come. The first operation does so where nobody has.
  virtual void connect() = 0;

  /// Everything at once; between two ranks in the order in which it stands here. What one rank
  /// sends to another is as much as that expects, in the same order (COLLECTIVE-4).
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

  /// The ranks that say the same colour, ordered by key, then by rank; null for a negative colour.
  /// All ranks call it. Waits, asleep, for what this rank has put on queues. Aborted with this
  /// group.
  virtual std::unique_ptr<nccl_communicator> split(axis along, int color, int key) = 0;

  /// NCCL may reach this device memory without a copy until the handle dies, or the group does. For
  /// buffers that live long.
  [[nodiscard]] virtual std::shared_ptr<void> hold(void* at, std::size_t bytes) = 0;
};

/// The end of one rank. Returns at once. Each rank is taken once; all say the same of the group
/// (COLLECTIVE-6). Throws backend_missing where there is no NCCL or no such device, input_error
/// where two ranks are on one device.
std::unique_ptr<nccl_communicator> make_nccl_communicator(nccl_groups& of,
                                                          const nccl_member& member);

}  // namespace troupe::runtime

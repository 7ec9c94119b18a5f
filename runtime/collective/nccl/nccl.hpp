// NCCL: what libtroupe_nccl.so does for this room (kernels/backend/plugin.hpp). Nothing here
// includes NCCL. The plug-in exports `troupe_nccl_library`. What is made of it: nccl_group.hpp.
//
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/communicators.html (communicators
// that do not block, fault tolerance)

#pragma once

#include "kernels/backend/device_failure.hpp"
#include "runtime/tensor/dtype.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace troupe::runtime {

/// Names a group that is being made: rank 0 has it from nccl_library::make_id, everybody joins with
/// it. A plain value, which may travel between processes.
struct nccl_id {
  std::array<char, 128> bytes = {};

  friend bool operator==(const nccl_id&, const nccl_id&) = default;
};

struct nccl_send {
  const void* from;
  std::int64_t bytes;
  int to;  ///< a rank
};

struct nccl_receive {
  void* to;
  std::int64_t bytes;
  int from;  ///< a rank
};

/// One rank's end of an NCCL communicator that does not block: every call returns soon, and what it
/// asked for has been put on the queue, or made, once `settled` says so. Until then nothing else is
/// asked of it, nor put on that queue.
///
/// One thread at a time; `abort` and `settled` from any. Failures, and any call after an abort,
/// throw device_failure: which rank and group, what NCCL said. They stay.
class nccl_end {
 public:
  using failure = kernels::device_failure;

  /// Aborts what was not closed.
  virtual ~nccl_end() = default;

  /// Begins to come together with the others that have this id.
  virtual void join(const nccl_id& id, int size, int rank) = 0;
  /// Begins to make a group of those ranks of the parent that say this colour, ordered by key.
  /// Nothing of the parent is under way, and it is asked for nothing until this has settled.
  virtual void split_from(nccl_end& parent, int color, int key) = 0;
  /// The same for a rank that will be in none of them.
  virtual void split_for_others() = 0;

  virtual bool settled() = 0;

  // Of a group that was made.
  virtual int rank() = 0;
  virtual int size() = 0;

  // On a queue of the end's device (device_queue::native). `settled` has said that nothing is under
  // way.

  /// All at once; between two ranks in the order in which they stand here.
  virtual void exchange(void* queue,
                        std::span<const nccl_send> sends,
                        std::span<const nccl_receive> receives)
      = 0;
  virtual void all_gather(void* queue, const void* mine, void* to, std::int64_t bytes_each) = 0;
  virtual void broadcast(void* queue, void* data, std::int64_t bytes, int root) = 0;

  // Sums in whatever order NCCL takes, in the types that `sums` knows.
  virtual void all_reduce_sum(void* queue, dtype type, const void* from, void* to, std::int64_t n)
      = 0;
  virtual void reduce_scatter_sum(
      void* queue, dtype type, const void* from, void* to, std::int64_t n_each)
      = 0;
  /// `to` is this rank's cut of the sum: communicator::offsets.
  virtual void reduce_cuts(
      void* queue, dtype type, const void* from, void* to, std::span<const std::int64_t> ends)
      = 0;

  /// NCCL may reach this device memory without a copy, until `let_go`, `close` or `abort`.
  virtual void* hold(void* at, std::size_t bytes) = 0;
  virtual void let_go(void* handle) noexcept = 0;

  /// Waits, asleep, for what is under way, and frees everything. Ranks of one process are closed
  /// at the same time, each on a thread of its own. Does not throw: what cannot be closed is
  /// aborted. An abort ends the wait.
  virtual void close() noexcept = 0;
  /// What is under way on the device ends where it is. Ranks of one process are aborted at the same
  /// time, each on a thread of its own.
  virtual void abort() noexcept = 0;
};

/// Any thread.
class nccl_library {
 public:
  virtual ~nccl_library() = default;

  /// 22809 is 2.28.9; of the library that was found.
  virtual int version() const = 0;
  /// Throws device_failure.
  virtual nccl_id make_id() = 0;
  /// `who` is named in failures: "rank 1 of the group 'data of part 0.0', generation 3".
  virtual std::unique_ptr<nccl_end> make_end(const std::string& who, int device) = 0;
};

/// The oldest that has all that is used: registration for transfers without a copy.
inline constexpr int oldest_nccl = 21900;

/// "2.28.9"; part of a run's identity where NCCL sums.
std::string nccl_version_text(int version);

/// Throws backend_missing where it is older than oldest_nccl: what was found and what to do.
void require_nccl(int version);

/// The library, opened on the first call. Throws backend_missing with the reason: the plug-in or
/// NCCL is not there, or too old.
nccl_library& open_nccl();

}  // namespace troupe::runtime

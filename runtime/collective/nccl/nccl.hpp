// Interface of the NCCL plug-in libtroupe_nccl.so (kernels/backend/plugin.hpp). The plug-in exports
// `troupe_nccl_library`; this header does not include NCCL. nccl_group.hpp uses it.
//
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/communicators.html (nonblocking
// communicators, fault tolerance)

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

/// Identifies a group while it is created: rank 0 gets it from nccl_library::make_id, and all ranks
/// join with it. A plain value, which may travel between processes.
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

/// One rank's end of a nonblocking NCCL communicator. Calls return soon. An operation is queued, or
/// a group made, once `settled` returns true. Until then do not call another operation or use the
/// queue.
///
/// One thread at a time; `abort` and `settled` from any thread. Failures, and calls after an abort,
/// throw device_failure with rank, group and NCCL's message. Failures are permanent.
class nccl_end {
 public:
  struct failure : kernels::device_failure {
    explicit failure(const std::string& text, bool by_peer = false)
        : kernels::device_failure(text), may_be_of_peer(by_peer) {}
    bool may_be_of_peer;  ///< NCCL names a connection or a remote process, not this device
  };

  /// Aborts if not closed.
  virtual ~nccl_end() = default;

  /// Starts to connect with the other ranks of this id.
  virtual void join(const nccl_id& id, int size, int rank) = 0;
  /// Starts to create a group of the parent's ranks with this color, ordered by key. The parent
  /// must be idle, and must not be used until this has settled.
  virtual void split_from(nccl_end& parent, int color, int key) = 0;
  /// Takes part in a split as a rank that joins none of the new groups.
  virtual void split_for_others() = 0;

  virtual bool settled() = 0;

  // Valid once the group is made.
  virtual int rank() = 0;
  virtual int size() = 0;

  // Operations on a queue of the end's device (device_queue::native). Require that `settled`
  // returned true.

  /// Runs all transfers at once; those between two ranks are matched in order.
  virtual void exchange(void* queue,
                        std::span<const nccl_send> sends,
                        std::span<const nccl_receive> receives)
      = 0;
  virtual void all_gather(void* queue, const void* mine, void* to, std::int64_t bytes_each) = 0;
  virtual void broadcast(void* queue, void* data, std::int64_t bytes, int root) = 0;

  // Sums in NCCL's order, for the types that `sums` knows.
  virtual void all_reduce_sum(void* queue, dtype type, const void* from, void* to, std::int64_t n)
      = 0;
  virtual void reduce_scatter_sum(
      void* queue, dtype type, const void* from, void* to, std::int64_t n_each)
      = 0;
  /// `to` receives this rank's cut of the sum: see communicator::offsets.
  virtual void reduce_cuts(
      void* queue, dtype type, const void* from, void* to, std::span<const std::int64_t> ends)
      = 0;

  /// Registers device memory for transfers without a copy, until `let_go`, `close` or `abort`.
  virtual void* hold(void* at, std::size_t bytes) = 0;
  virtual void let_go(void* handle) noexcept = 0;

  /// Sleeps until pending work is done, then frees all resources. Close the ranks of one process in
  /// parallel, each on its own thread. Does not throw: if closing fails, it aborts. An abort ends
  /// the wait.
  virtual void close() noexcept = 0;
  /// Stops pending work on the device. Abort the ranks of one process in parallel, each on its own
  /// thread.
  virtual void abort() noexcept = 0;
};

/// Any thread.
class nccl_library {
 public:
  virtual ~nccl_library() = default;

  /// Version of the loaded library; 22809 is 2.28.9.
  virtual int version() const = 0;
  /// Throws device_failure.
  virtual nccl_id make_id() = 0;
  /// Failures name `who`: "rank 1 of the group 'data of part 0.0', generation 3".
  virtual std::unique_ptr<nccl_end> make_end(const std::string& who, int device) = 0;
};

/// Oldest supported version: the first with registration for transfers without a copy.
inline constexpr int oldest_nccl = 21900;

/// "2.28.9"; part of a run's identity if NCCL computes sums.
std::string nccl_version_text(int version);

/// Throws backend_missing, with advice, if `version` is older than oldest_nccl.
void require_nccl(int version);

/// The library, opened on the first call. Throws backend_missing with the reason: the plug-in or
/// NCCL is missing or too old.
nccl_library& open_nccl();

}  // namespace troupe::runtime

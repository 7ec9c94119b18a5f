// NCCL of the emulated device. A world is the set of ranks with one id, or with one colour of a
// split. A member is one rank of a world; a communicator's handle names it.
//
// One mutex guards all state, and each change wakes all waiting threads: there are few ranks.

#pragma once

#include "tests/emulator/include/nccl.h"
#include "tests/emulator/nccl_between.hpp"
#include "tests/emulator/streams.hpp"

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace troupe::emulator {
struct nccl_member;
}

struct ncclComm {
  std::shared_ptr<troupe::emulator::nccl_member> is;
};

namespace troupe::emulator {

enum class nccl_kind { send, receive, all_reduce, reduce, reduce_scatter, all_gather, broadcast };

struct nccl_operation {
  nccl_kind kind;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;  ///< count argument of the call: elements of the smaller side
  ncclDataType_t type = ncclFloat32;
  int peer = 0;              ///< or the root
  std::uint64_t number = 0;  ///< sequence number among the rank's collectives
};

/// A message from one rank to another, until the receiver has read it.
struct nccl_message {
  const void* from;
  std::size_t bytes;
  enum { posted, taken, read } is = posted;
};

/// One collective operation of a world: its ranks arrive, read each other's input, then write.
struct nccl_meeting {
  std::map<int, nccl_operation> arrived;
  int reading = 0;
  int have_read = 0;
  int have_left = 0;
  bool broken = false;  ///< a rank was aborted before all ranks had read
};

struct nccl_world {
  int size;
  std::shared_ptr<nccl_segment> segment = {};  ///< null for a split
  bool spans = false;                          ///< ranks in several processes
  std::map<int, std::shared_ptr<nccl_member>> members = {};
  std::map<std::uint64_t, nccl_meeting> meetings = {};
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<nccl_message>>> messages = {};
  /// Arguments of each rank that has arrived, by number of the split.
  struct split {
    int color;
    int key;
    std::shared_ptr<nccl_member> child;
  };
  std::map<std::uint64_t, std::map<int, split>> splits = {};
};

struct nccl_member {
  int device;
  bool blocking;
  int rank = -1;
  std::shared_ptr<nccl_world> world = {};  ///< null until a split is complete
  ncclResult_t state = ncclInProgress;
  std::string last_error = {};
  bool aborted = false;
  int outstanding = 0;                    ///< unfinished bundles
  std::uint64_t begun = 0, finished = 0;  ///< bundles
  std::uint64_t meetings = 0;
  std::uint64_t splits = 0;
};

using nccl_member_pointer = std::shared_ptr<nccl_member>;

struct nccl_lock {
  std::unique_lock<std::mutex> held;
  nccl_lock();
  /// Waits until `condition` holds; calls it with the lock held.
  void wait(const std::function<bool()>& condition);
  static void wake();
};

/// Carries out a bundle: the operations of one rank in one group, for one stream. Returns when all
/// are done or the rank's communicator was aborted. Runs on the stream's thread with device memory
/// closed. In a world of several processes, bundles run in the order of their numbers.
void carry_out(const nccl_member_pointer& by,
               const std::vector<nccl_operation>& bundle,
               std::uint64_t number);

/// Begins every id.
inline constexpr char nccl_seal[] = "Troupe emulated NCCL ";

/// A new id. Empty if the system refuses.
std::string make_id();

/// Completes the world of a member if the ranks of other processes have joined. The caller holds
/// the lock.
void look(nccl_member& member);

/// Joins the world of an id. The states of its members change when the last one has arrived.
ncclResult_t join(const std::string& id, int size, int rank, const nccl_member_pointer& as);

/// Adds a rank's arguments to the next split of its world.
void join_split(const nccl_member_pointer& parent, int color, int key, nccl_member_pointer child);

/// Sets a permanent error with a text. The caller holds the lock.
void fail(nccl_member& member, ncclResult_t error, const std::string& text);

// Live handles and their members. The caller holds the lock.
std::set<const ncclComm*>& handles();
nccl_member_pointer member_of(const ncclComm* comm);

/// Prints the reason and returns ncclInvalidArgument.
ncclResult_t refused(const std::string& why);

/// Checks that the communicator accepts calls now, and returns its member in `to`.
ncclResult_t usable(const ncclComm* comm, nccl_member_pointer* to);

/// Checks an operation, then starts it or stores it until the end of the thread's group.
ncclResult_t nccl_call(const char* name, ncclComm_t comm, cudaStream_t stream, nccl_operation is);

std::size_t bytes_of(ncclDataType_t type);

/// Sums `inputs` element-wise, in their order, and rounds after each step.
void sum(const std::vector<const void*>& inputs, std::size_t count, ncclDataType_t type, void* to);

}  // namespace troupe::emulator

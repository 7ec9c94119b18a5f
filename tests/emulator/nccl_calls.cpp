// NCCL calls: communicators and groups.

#include "tests/emulator/memory.hpp"
#include "tests/emulator/nccl.hpp"
#include "tests/emulator/settings.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

namespace troupe::emulator {
namespace {

/// Calls of one thread since ncclGroupStart.
struct group_state {
  struct bundle {
    nccl_member_pointer by;
    std::shared_ptr<stream_queue> on;
    std::vector<nccl_operation> operations;
    std::uint64_t number = 0;  ///< in the order of calls
  };
  int depth = 0;
  std::vector<bundle> bundles = {};
  std::vector<nccl_member_pointer> begun = {};  ///< communicators under construction
};
thread_local group_state group;

/// The result of a call that makes or ends a communicator. Waits if the communicator is blocking.
ncclResult_t settled(const nccl_member_pointer& member) {
  if (!member->blocking)
    return ncclInProgress;
  nccl_lock lock;
  lock.wait([&] {
    look(*member);
    return member->state != ncclInProgress || member->aborted;
  });
  return member->state;
}

ncclResult_t settled_or_grouped(const nccl_member_pointer& member) {
  if (group.depth == 0)
    return settled(member);
  group.begun.push_back(member);
  return member->blocking ? ncclSuccess : ncclInProgress;
}

bool blocks(const ncclConfig_t* config) {
  return config == nullptr || config->blocking != 0;
}

bool is_config(const ncclConfig_t* config) {
  return config == nullptr || (config->size == sizeof *config && config->magic == 0xcafebeef);
}

nccl_member_pointer make(ncclComm_t* to, int device, bool blocking) {
  auto member = std::make_shared<nccl_member>(nccl_member{.device = device, .blocking = blocking});
  *to = new ncclComm{member};
  const nccl_lock lock;
  handles().insert(*to);
  return member;
}

void forget(ncclComm_t comm) {
  const nccl_lock lock;
  handles().erase(comm);
  if (comm->is->world)
    comm->is->world->members.erase(comm->is->rank);
  delete comm;
}

/// Whether this call on the communicator returns ncclInProgress.
bool later(const nccl_member& member) {
  static std::atomic<std::uint64_t> calls = 0;
  std::uint64_t random = machine().seed + ++calls * 0x2545f4914f6cdd1dU;
  return !member.blocking && draw(random, 2) == 0;
}

void push(const group_state::bundle& what, std::shared_ptr<const void> finished) {
  what.on->push(item_kind::host,
                [by = what.by,
                 operations = what.operations,
                 number = what.number,
                 finished = std::move(finished)] { carry_out(by, operations, number); });
}

ncclResult_t start(group_state::bundle what) {
  const auto& by = what.by;
  // Decremented when the stream drops the item, carried out or not.
  std::shared_ptr<const void> finished(by.get(), [by](const void*) {
    const nccl_lock lock;
    --by->outstanding;
    ++by->finished;
    nccl_lock::wake();
  });
  {
    const nccl_lock lock;
    ++by->outstanding;
    what.number = by->begun++;
    for (auto& one : what.operations)
      if (one.kind != nccl_kind::send && one.kind != nccl_kind::receive)
        one.number = by->meetings++;
    if (const int planted = planted_fault("ncclAsync"); planted != 0)
      fail(*by, ncclResult_t(planted), "a planted error");
  }
  if (!later(*by)) {
    push(what, std::move(finished));
    return ncclSuccess;
  }
  {
    const nccl_lock lock;
    if (by->state == ncclSuccess)
      by->state = ncclInProgress;
  }
  std::thread([what = std::move(what), finished = std::move(finished)]() mutable {
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // exposes missing polls
    push(what, std::move(finished));
    const nccl_lock lock;
    if (what.by->state == ncclInProgress)
      what.by->state = ncclSuccess;
    nccl_lock::wake();
  }).detach();
  return ncclInProgress;
}

bool lies_on(int device, const void* at, std::size_t bytes) {
  if (bytes == 0)
    return true;
  const auto block = device_block(at);
  return block && block->device == device
         && static_cast<const std::byte*>(at) + bytes <= block->at + block->bytes;
}

}  // namespace

std::set<const ncclComm*>& handles() {
  static auto* const all = new std::set<const ncclComm*>;
  return *all;
}

nccl_member_pointer member_of(const ncclComm* comm) {
  return handles().contains(comm) ? comm->is : nullptr;
}

ncclResult_t refused(const std::string& why) {
  say("NCCL: " + why);
  return ncclInvalidArgument;
}

ncclResult_t usable(const ncclComm* comm, nccl_member_pointer* to) {
  const nccl_lock lock;
  *to = member_of(comm);
  if (!*to)
    return refused("the communicator does not exist or was destroyed");
  if ((*to)->state == ncclInProgress)
    return refused("the communicator is used before ncclCommGetAsyncError reported ncclSuccess");
  return (*to)->state;
}

ncclResult_t nccl_call(const char* name, ncclComm_t comm, cudaStream_t stream, nccl_operation is) {
  nccl_member_pointer by;
  if (const auto wrong = usable(comm, &by); wrong != ncclSuccess)
    return wrong;
  if (const int planted = planted_fault(name); planted != 0)
    return ncclResult_t(planted);
  const auto queue = find_stream(stream);
  const auto size = std::size_t(by->world->size), all = is.count * bytes_of(is.type);
  const bool rooted = is.kind == nccl_kind::reduce || is.kind == nccl_kind::broadcast;
  const bool reads
      = is.kind != nccl_kind::receive && (is.kind != nccl_kind::broadcast || by->rank == is.peer);
  const bool writes
      = is.kind != nccl_kind::send && (is.kind != nccl_kind::reduce || by->rank == is.peer);
  if (!queue || queue->device != by->device || bytes_of(is.type) == 0)
    return refused(std::string(name) + ": the stream is on another device, or the type is unknown");
  if (is.peer < 0 || std::size_t(is.peer) >= size)
    return refused(std::string(name) + ": there is no rank " + std::to_string(is.peer));
  if ((reads
       && !lies_on(by->device, is.from, is.kind == nccl_kind::reduce_scatter ? all * size : all))
      || (writes
          && !lies_on(by->device, is.to, is.kind == nccl_kind::all_gather ? all * size : all)))
    return refused(std::string(name) + (rooted ? " with a root" : "")
                   + ": a buffer is not memory of the communicator's device, or too short");
  if (is.count == 0 && (is.kind == nccl_kind::send || is.kind == nccl_kind::receive))
    return ncclSuccess;
  if (group.depth == 0)
    return start({by, queue, {is}});
  for (auto& one : group.bundles)
    if (one.by == by && one.on == queue) {
      one.operations.push_back(is);
      return ncclSuccess;
    }
  group.bundles.push_back({by, queue, {is}});
  return ncclSuccess;
}

}  // namespace troupe::emulator

using namespace troupe::emulator;

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (const int planted = planted_fault("ncclGetUniqueId"); planted != 0)
    return ncclResult_t(planted);
  const auto made = make_id();
  if (made.empty())
    return ncclSystemError;
  std::copy(made.begin(), made.end(), id->internal);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(
    ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (const int planted = planted_fault("ncclCommInitRankConfig"); planted != 0)
    return ncclResult_t(planted);
  if (obstacle("nccl") != cudaSuccess)
    return ncclUnhandledCudaError;
  if (comm == nullptr || ranks < 1 || rank < 0 || rank >= ranks || !is_config(config)
      || std::strncmp(id.internal, nccl_seal, sizeof nccl_seal - 1) != 0)
    return refused("ncclCommInitRankConfig: the rank, the id or the configuration is invalid");
  const auto member = make(comm, current_device(), blocks(config));
  join({id.internal, sizeof id.internal}, ranks, rank, member);
  return settled_or_grouped(member);
}

ncclResult_t ncclCommSplit(
    ncclComm_t comm, int color, int key, ncclComm_t* child, ncclConfig_t* config) {
  nccl_member_pointer parent;
  if (const auto wrong = usable(comm, &parent); wrong != ncclSuccess)
    return wrong;
  if (const int planted = planted_fault("ncclCommSplit"); planted != 0)
    return ncclResult_t(planted);
  if (child == nullptr || !is_config(config) || (color < 0 && color != NCCL_SPLIT_NOCOLOR))
    return refused("ncclCommSplit: the colour or the configuration is invalid");
  {
    const nccl_lock lock;
    if (parent->world->spans) {
      say("NCCL: ncclCommSplit of ranks in several processes is not emulated");
      return ncclInvalidUsage;
    }
    if (parent->outstanding > 0) {
      say("NCCL: ncclCommSplit was called while operations of the communicator are unfinished");
      return ncclInvalidUsage;
    }
  }
  *child = nullptr;
  nccl_member_pointer member;
  if (color != NCCL_SPLIT_NOCOLOR)
    member = make(child, parent->device, config == nullptr ? parent->blocking : blocks(config));
  join_split(parent, color, key, member);
  return member ? settled_or_grouped(member) : ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  nccl_member_pointer member;
  if (const auto wrong = usable(comm, &member); wrong != ncclSuccess)
    return wrong;
  {
    const nccl_lock lock;
    member->state = ncclInProgress;
  }
  std::thread([member] {
    nccl_lock lock;
    lock.wait([&] { return member->outstanding == 0 || member->aborted; });
    if (member->state == ncclInProgress)
      member->state = ncclSuccess;
    nccl_lock::wake();
  }).detach();
  return settled(member);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  {
    nccl_lock lock;
    const auto member = member_of(comm);
    if (!member)
      return refused("ncclCommDestroy: the communicator does not exist");
    lock.wait([&] {
      return (member->outstanding == 0 && member->state != ncclInProgress) || member->aborted
             || (member->state != ncclSuccess && member->state != ncclInProgress);
    });
  }
  forget(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  {
    const nccl_lock lock;
    const auto member = member_of(comm);
    if (!member)
      return refused("ncclCommAbort: the communicator does not exist");
    member->aborted = true;
    nccl_lock::wake();
  }
  forget(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const nccl_lock lock;
  const auto member = member_of(comm);
  if (!member)
    return refused("ncclCommGetAsyncError: the communicator does not exist");
  look(*member);
  *error = member->state;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0)
    return ncclInvalidUsage;
  if (--group.depth > 0)
    return ncclSuccess;
  const group_state all = std::exchange(group, {});
  ncclResult_t result = planted_fault("ncclGroupEnd") == 0 ? ncclSuccess : ncclSystemError;
  const auto take = [&](ncclResult_t one) {
    if (one != ncclSuccess && (result == ncclSuccess || result == ncclInProgress))
      result = one;
  };
  for (const auto& member : all.begun)
    take(settled(member));
  for (const auto& one : all.bundles)
    take(start(one));
  return result;
}

}  // extern "C"

// NCCL calls: operations, queries, memory.

#include "tests/emulator/memory.hpp"
#include "tests/emulator/nccl.hpp"

using namespace troupe::emulator;

namespace {

/// Live registrations of all communicators; guarded by nccl_lock.
std::set<void*>& registrations() {
  static auto* const all = new std::set<void*>;
  return *all;
}

template <class Question>
ncclResult_t ask(const ncclComm* comm, int* to, Question&& question) {
  nccl_member_pointer member;
  const auto wrong = usable(comm, &member);
  if (wrong == ncclSuccess)
    *to = question(*member);
  return wrong;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "a CUDA call failed";
    case ncclSystemError:
      return "a system call failed";
    case ncclInternalError:
      return "an internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "a peer failed or is gone";
    case ncclInProgress:
      return "in progress";
    case ncclNumResults:
      break;
  }
  return "an unknown result";
}

const char* ncclGetLastError(ncclComm_t comm) {
  static thread_local std::string last;
  const nccl_lock lock;
  const auto member = member_of(comm);
  last = member ? member->last_error : "";
  return last.c_str();
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return ask(comm, count, [](const nccl_member& of) { return of.world->size; });
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return ask(comm, rank, [](const nccl_member& of) { return of.rank; });
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* at, std::size_t bytes, void** handle) {
  nccl_member_pointer member;
  if (const auto wrong = usable(comm, &member); wrong != ncclSuccess)
    return wrong;
  const auto block = device_block(at);
  if (!block || static_cast<std::byte*>(at) + bytes > block->at + block->bytes)
    return refused("ncclCommRegister: the buffer is not device memory");
  *handle = ::operator new(1);
  const nccl_lock lock;
  registrations().insert(*handle);
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  const nccl_lock lock;
  if (!member_of(comm) || registrations().erase(handle) == 0)
    return refused("ncclCommDeregister: the communicator or the registration does not exist");
  ::operator delete(handle);
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* from,
                      std::size_t count,
                      ncclDataType_t type,
                      int peer,
                      ncclComm_t comm,
                      cudaStream_t stream) {
  return nccl_call(
      "ncclSend",
      comm,
      stream,
      {.kind = nccl_kind::send, .from = from, .count = count, .type = type, .peer = peer});
}

ncclResult_t ncclRecv(void* to,
                      std::size_t count,
                      ncclDataType_t type,
                      int peer,
                      ncclComm_t comm,
                      cudaStream_t stream) {
  return nccl_call(
      "ncclRecv",
      comm,
      stream,
      {.kind = nccl_kind::receive, .to = to, .count = count, .type = type, .peer = peer});
}

ncclResult_t ncclAllReduce(const void* from,
                           void* to,
                           std::size_t count,
                           ncclDataType_t type,
                           ncclRedOp_t,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  return nccl_call(
      "ncclAllReduce",
      comm,
      stream,
      {.kind = nccl_kind::all_reduce, .from = from, .to = to, .count = count, .type = type});
}

ncclResult_t ncclReduce(const void* from,
                        void* to,
                        std::size_t count,
                        ncclDataType_t type,
                        ncclRedOp_t,
                        int root,
                        ncclComm_t comm,
                        cudaStream_t stream) {
  return nccl_call("ncclReduce",
                   comm,
                   stream,
                   {.kind = nccl_kind::reduce,
                    .from = from,
                    .to = to,
                    .count = count,
                    .type = type,
                    .peer = root});
}

ncclResult_t ncclReduceScatter(const void* from,
                               void* to,
                               std::size_t to_count,
                               ncclDataType_t type,
                               ncclRedOp_t,
                               ncclComm_t comm,
                               cudaStream_t stream) {
  return nccl_call(
      "ncclReduceScatter",
      comm,
      stream,
      {.kind = nccl_kind::reduce_scatter, .from = from, .to = to, .count = to_count, .type = type});
}

ncclResult_t ncclAllGather(const void* from,
                           void* to,
                           std::size_t from_count,
                           ncclDataType_t type,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  return nccl_call(
      "ncclAllGather",
      comm,
      stream,
      {.kind = nccl_kind::all_gather, .from = from, .to = to, .count = from_count, .type = type});
}

ncclResult_t ncclBroadcast(const void* from,
                           void* to,
                           std::size_t count,
                           ncclDataType_t type,
                           int root,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  return nccl_call("ncclBroadcast",
                   comm,
                   stream,
                   {.kind = nccl_kind::broadcast,
                    .from = from,
                    .to = to,
                    .count = count,
                    .type = type,
                    .peer = root});
}

}  // extern "C"

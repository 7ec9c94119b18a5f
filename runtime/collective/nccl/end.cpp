#include "runtime/collective/nccl/end.hpp"

#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

namespace troupe::runtime::nccl {

void require(ncclResult_t result, const std::string& who, const char* what, ncclComm_t comm) {
  if (result == ncclSuccess || result == ncclInProgress)
    return;
  const char* const said = ncclGetLastError(comm);
  std::string text = "NCCL: " + who + ", " + what + ": " + ncclGetErrorString(result);
  if (said != nullptr && *said != 0)
    text += std::string(" (") + said + ")";
  throw nccl_end::failure(text, result == ncclRemoteError || result == ncclSystemError);
}

end::~end() {
  abort();
}

ncclComm_t end::handle() {
  return std::atomic_ref(comm_).load(std::memory_order_acquire);
}

ncclComm_t end::usable(const char* what) {
  const auto comm = handle();
  if (ended_ || comm == nullptr)
    throw failure("NCCL: " + who_ + ", " + what + ": its communicator was "
                  + (ended_ ? "aborted or closed" : "not made"));
  last_ = what;
  return comm;
}

namespace {

ncclConfig_t without_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

}  // namespace

void end::join(const nccl_id& id, int size, int rank) {
  const std::lock_guard lock(mutex_);
  if (ended_)
    throw failure("NCCL: " + who_ + ": aborted before it connected to the other ranks");
  if (const auto status = cudaSetDevice(device_); status != cudaSuccess)
    throw failure("NCCL: " + who_ + ", choosing device " + std::to_string(device_) + ": "
                  + cudaGetErrorString(status));
  ncclUniqueId native = {};
  static_assert(sizeof native == sizeof id.bytes);
  std::memcpy(&native, id.bytes.data(), sizeof native);
  auto config = without_blocking();
  require(ncclCommInitRankConfig(&comm_, size, native, rank, &config), who_, last_, nullptr);
}

// NCCL keeps the state of a split in the parent, and sets the child's handle at its end.
void end::split_from(nccl_end& parent, int color, int key) {
  const std::lock_guard lock(mutex_);
  auto& from = static_cast<end&>(parent);
  const std::lock_guard of_parent(from.mutex_);
  const auto comm = from.usable("splitting");
  auto config = without_blocking();
  parent_ = &from;
  require(ncclCommSplit(comm, color, key, &comm_, &config), from.who_, "splitting", comm);
}

void end::split_for_others() {
  call("splitting", [&](ncclComm_t comm) {
    return ncclCommSplit(comm, NCCL_SPLIT_NOCOLOR, 0, &none_, nullptr);
  });
}

bool end::settled(ncclComm_t comm, const char* what) {
  ncclResult_t state = ncclSuccess;
  require(ncclCommGetAsyncError(comm, &state), who_, "querying its status", comm);
  require(state, who_, what, comm);
  return state == ncclSuccess;
}

bool end::settled() {
  const std::lock_guard lock(mutex_);
  if (parent_ != nullptr) {
    if (!parent_->settled())
      return false;
    if (handle() == nullptr)
      return false;
    parent_ = nullptr;
  }
  return settled(usable(last_), last_);
}

int end::rank() {
  const std::lock_guard lock(mutex_);
  const auto comm = usable("querying its rank");
  int out = 0;
  require(ncclCommUserRank(comm, &out), who_, last_, comm);
  return out;
}

int end::size() {
  const std::lock_guard lock(mutex_);
  const auto comm = usable("querying its size");
  int out = 0;
  require(ncclCommCount(comm, &out), who_, last_, comm);
  return out;
}

void* end::hold(void* at, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto comm = usable("registering memory");
  void* out = nullptr;
  require(ncclCommRegister(comm, at, bytes, &out), who_, last_, comm);
  held_.insert(out);
  return out;
}

void end::let_go(void* handle) noexcept {
  const std::lock_guard lock(mutex_);
  if (held_.erase(handle) != 0)
    ncclCommDeregister(comm_, handle);
}

void end::let_go_of_all(ncclComm_t comm) {
  for (auto* const one : held_)
    ncclCommDeregister(comm, one);
  held_.clear();
}

// Waits without the mutex, so that an abort can end the wait.
void end::close() noexcept {
  bool waiting = true;
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || handle() == nullptr)
      return;
    let_go_of_all(comm_);
    const auto result = ncclCommFinalize(comm_);
    waiting = result == ncclSuccess || result == ncclInProgress;
  }
  while (waiting) {
    {
      const std::lock_guard lock(mutex_);
      if (ended_)
        return;
      ncclResult_t state = ncclSuccess;
      const auto asked = ncclCommGetAsyncError(comm_, &state);
      if (asked != ncclSuccess || state != ncclInProgress) {
        waiting = false;
        if (asked == ncclSuccess && state == ncclSuccess) {
          ended_ = true;
          ncclCommDestroy(comm_);
          return;
        }
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  abort();
}

void end::abort() noexcept {
  const std::lock_guard lock(mutex_);
  if (ended_)
    return;
  ended_ = true;
  if (parent_ != nullptr)  // the parent's communicator is still making it
    parent_->abort();
  const auto comm = handle();
  if (comm == nullptr)
    return;
  let_go_of_all(comm);
  ncclCommAbort(comm);  // the handle is invalid even if this fails
}

}  // namespace troupe::runtime::nccl

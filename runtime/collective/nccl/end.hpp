// A rank's NCCL communicator. Part of the plug-in libtroupe_nccl.so.

#pragma once

#include "runtime/collective/nccl/nccl.hpp"

#include <nccl.h>

#include <mutex>
#include <set>
#include <vector>

namespace troupe::runtime::nccl {

/// Throws device_failure unless the call succeeded or is in progress: `who` did `what`.
void require(ncclResult_t result, const std::string& who, const char* what, ncclComm_t comm);

/// The mutex serializes all NCCL calls on this communicator. They are nonblocking, so an abort does
/// not wait long.
class end final : public nccl_end {
 public:
  end(std::string who, int device) : who_(std::move(who)), device_(device) {}
  ~end() override;
  end(const end&) = delete;
  end& operator=(const end&) = delete;

  void join(const nccl_id& id, int size, int rank) override;
  void split_from(nccl_end& parent, int color, int key) override;
  void split_for_others() override;
  bool settled() override;
  int rank() override;
  int size() override;

  void exchange(void* queue,
                std::span<const nccl_send> sends,
                std::span<const nccl_receive> receives) override;
  void all_gather(void* queue, const void* mine, void* to, std::int64_t bytes_each) override;
  void broadcast(void* queue, void* data, std::int64_t bytes, int root) override;
  void all_reduce_sum(void* queue, dtype type, const void* from, void* to, std::int64_t n) override;
  void reduce_scatter_sum(
      void* queue, dtype type, const void* from, void* to, std::int64_t n_each) override;
  void reduce_cuts(void* queue,
                   dtype type,
                   const void* from,
                   void* to,
                   std::span<const std::int64_t> ends) override;

  void* hold(void* at, std::size_t bytes) override;
  void let_go(void* handle) noexcept override;
  void close() noexcept override;
  void abort() noexcept override;

 private:
  /// Locks out NCCL's thread that writes the handle of a split.
  ncclComm_t handle();
  /// The handle. Throws if the communicator was not made, or has ended.
  ncclComm_t usable(const char* what);
  bool settled(ncclComm_t comm, const char* what);
  void let_go_of_all(ncclComm_t comm);
  template <class Call>
  void call(const char* what, Call&& of_nccl) {
    const std::lock_guard lock(mutex_);
    const auto comm = usable(what);
    require(of_nccl(comm), who_, what, comm);
  }

  const std::string who_;
  const int device_;
  std::mutex mutex_;
  ncclComm_t comm_ = nullptr;
  ncclComm_t none_ = nullptr;  ///< NCCL's result of a split without this rank, set asynchronously
  end* parent_ = nullptr;      ///< set during a split; the parent outlives it
  bool ended_ = false;
  const char* last_ = "connecting";  ///< last operation, for messages
  std::set<void*> held_;
};

}  // namespace troupe::runtime::nccl

// A rank's NCCL communicator. Part of the plug-in libtroupe_nccl.so.

#pragma once

#include "runtime/collective/nccl/nccl.hpp"

#include <nccl.h>

#include <mutex>
#include <set>
#include <vector>

namespace troupe::runtime::nccl {

/// Throws device_failure unless all went well, or is under way: `who` did `what`.
void require(ncclResult_t result, const std::string& who, const char* what, ncclComm_t comm);

/// The mutex keeps every call of NCCL on this communicator apart. They return soon, because it does
/// not block, so an abort need not wait for long.
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
  /// NCCL writes the handle of a split from a thread of its own.
  ncclComm_t handle();
  /// The handle, of a communicator that was made and not ended.
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
  ncclComm_t none_ = nullptr;  ///< what a split without this rank gives it, some time later
  end* parent_ = nullptr;      ///< while this is being split off; it outlives that
  bool ended_ = false;
  const char* last_ = "coming together";  ///< what was asked for last
  std::set<void*> held_;
};

}  // namespace troupe::runtime::nccl

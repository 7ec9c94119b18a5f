// NCCL communicator of one rank; see nccl_group.hpp.

#pragma once

#include "runtime/collective/nccl_shared.hpp"

namespace troupe::runtime {

class nccl_rank final : public nccl_communicator {
 public:
  /// `end` is given only for groups made by a split.
  nccl_rank(std::shared_ptr<nccl_group> group,
            int rank,
            int device,
            std::shared_ptr<nccl_end> end = nullptr)
      : group_(std::move(group)),
        rank_(rank),
        size_(group_->size()),
        device_(device),
        end_(std::move(end)) {}

  axis_set along() const override { return group_->along(); }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void connect() override;
  void check() override { group_->check(); }
  void barrier() override;
  void all_reduce_sum(stream& stream,
                      dtype type,
                      std::span<const void* const> parts,
                      void* to,
                      std::int64_t n) override;
  void reduce_scatter_sum(stream& stream,
                          dtype type,
                          std::span<const void* const> parts,
                          void* to,
                          offsets ends) override;
  void all_gather(stream& stream, const void* mine, void* to, offsets ends) override;
  void all_to_all(
      stream& stream, const void* from, offsets from_ends, void* to, offsets to_ends) override;
  void broadcast(stream& stream, void* data, std::int64_t bytes, int root) override;
  void exchange(stream& stream,
                std::span<const nccl_send> sends,
                std::span<const nccl_receive> receives) override;
  std::unique_ptr<nccl_communicator> split(axis_set along, int color, int key) override;
  std::shared_ptr<void> hold(void* at, std::size_t bytes) override;

 private:
  collective_mode mode() const { return group_->terms().mode; }
  /// Called before an operation is queued on the stream.
  void prepare(stream& stream);
  void call(const std::function<void(nccl_end&)>& of_nccl);
  /// Such a call queues an operation on the stream.
  void enqueue(stream& stream, const std::function<void(nccl_end&)>& of_nccl);
  void move(stream& stream,
            const std::vector<nccl_send>& sends,
            const std::vector<nccl_receive>& receives);
  void ordered_cut(
      stream& stream, dtype type, std::span<const void* const> parts, void* to, offsets ends);
  void gather_cuts(stream& stream, void* data, std::int64_t bytes_each, offsets ends);

  std::shared_ptr<nccl_group> group_;
  int rank_;
  int size_;
  int device_;
  std::shared_ptr<nccl_end> end_;  ///< set once all ranks have connected
  std::set<std::shared_ptr<device_queue>> queues_;
  std::unique_ptr<stream> own_;  ///< stream of barriers
  memory_block token_;           ///< buffer of barriers
};

}  // namespace troupe::runtime

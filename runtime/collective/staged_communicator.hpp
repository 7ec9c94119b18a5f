// A communicator of a device for a group that works on host memory, as groups between processes do.
//
// Each call copies its operands to the host through pinned memory (device/staging.hpp), calls the
// group there, and copies the results back. The calling lane waits for the first copy and for the
// other ranks. The copies run on the lane's own stream, so those of the lane that reduces gradients
// run beside the computation. Sums have the same bits as on devices: ordered_sum has one order.

#pragma once

#include "runtime/collective/communicator.hpp"
#include "runtime/device/memory_pool.hpp"

#include <memory>

namespace troupe::runtime {

class staged_communicator final : public communicator {
 public:
  /// `from`: memory that the group's other processes can map (windows::source); may be empty. The
  /// host memory has up to twice the size of the largest call's operands, until the group's end.
  /// `beside`: a rank's communication lane calls it.
  staged_communicator(std::unique_ptr<communicator> group, memory_source from, bool beside = false);

  axis_set along() const override { return group_->along(); }
  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  std::uint64_t waited_ns() const override { return group_->waited_ns(); }
  void check() override { group_->check(); }
  void barrier() override { group_->barrier(); }
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

 private:
  /// Host memory of at least that size; its earlier contents are lost.
  std::byte* room(std::int64_t bytes);
  /// Copies to the host after all earlier work of the stream.
  void fetch(const stream& by, void* to, const void* from, std::int64_t bytes) const;
  /// Copies the arrays of `bytes` each to the host, and returns their places.
  std::vector<const void*> read(stream& from,
                                std::span<const void* const> parts,
                                std::int64_t bytes);

  const std::unique_ptr<communicator> group_;
  stream host_;
  const bool beside_;
  memory_block room_;
  std::int64_t room_bytes_ = 0;
};

}  // namespace troupe::runtime

// A communicator without the other ranks: only this rank exists. Counts the bytes that they would
// send.

#pragma once

#include "runtime/collective/communicator.hpp"
#include "runtime/layout/axis.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::runtime {

class shadow_communicator final : public communicator {
 public:
  shadow_communicator(axis_set along, int rank, int size, axis_map<std::int64_t>& received)
      : along_(along), rank_(rank), size_(size) {
    for (const auto& row : axis_table())  // sums over several axes count for the last one
      if (along.has(row.id))
        received_ = &received[row.id];
  }

  axis_set along() const override { return along_; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override {}
  void all_reduce_sum(
      stream&, dtype type, std::span<const void* const>, void*, std::int64_t n) override {
    *received_ += 2 * (size_ - 1) * n / size_ * std::int64_t(size_of(type));
  }
  void reduce_scatter_sum(
      stream&, dtype type, std::span<const void* const>, void*, offsets ends) override {
    *received_ += from_others(ends) * std::int64_t(size_of(type));
  }
  void all_gather(stream&, const void*, void*, offsets ends) override {
    *received_ += from_others(ends);
  }
  void all_to_all(stream&, const void*, offsets, void*, offsets to_ends) override {
    *received_ += from_others(to_ends);
  }
  void broadcast(stream&, void*, std::int64_t bytes, int root) override {
    *received_ += root == rank_ ? 0 : bytes;
  }

 private:
  std::int64_t from_others(offsets ends) const {
    const auto own = std::size_t(rank_);
    return ends.back() - ends[own] + (own > 0 ? ends[own - 1] : 0);
  }

  axis_set along_;
  int rank_, size_;
  std::int64_t* received_ = nullptr;
};

}  // namespace troupe::runtime

// A communicator for a group with ranks in several processes.

#pragma once

#include "runtime/collective/window/group.hpp"

#include <exception>

namespace troupe::runtime {

/// Works on host memory; throws input_error on a device stream. Sums have the bits of
/// local_group's.
///
/// A call has two or three meetings. At the first, ranks exchange their calls and the places of
/// their arrays. Then each rank reads what it needs and adds it in rank order, a piece at a time.
/// At the last meeting all ranks have read. An error in a call ends the membership: later calls
/// throw it again until the generation ends.
class window_communicator final : public communicator {
 public:
  /// Joins the group. Throws as window_group::join does.
  window_communicator(std::shared_ptr<window_group> group, int rank, const cancel_token& until);
  ~window_communicator() override;
  window_communicator(const window_communicator&) = delete;
  window_communicator& operator=(const window_communicator&) = delete;

  axis_set along() const override { return group_->description().along; }
  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  bool maps_arrays() const override { return group_->maps_arrays(); }
  std::uint64_t waited_ns() const override { return group_->waited_ns(rank_); }
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

 private:
  /// Bytes of a rank's array to copy.
  struct move {
    int rank;
    std::size_t array;
    std::int64_t begin;
    void* to;
    std::int64_t bytes;
  };

  template <class Work>
  void carry_out(const collective_call& call, Work&& work);
  /// The first meeting of a call: compares the calls.
  void meet(const collective_call& call, std::vector<window_array> arrays);
  void meet() { group_->meet(rank_); }
  /// Sums elements [begin, end) of all ranks' parts.
  void sum(stream& stream, dtype type, void* to, std::int64_t begin, std::int64_t end);
  void fetch(stream& stream, const std::vector<move>& moves);
  void fetch_distant(const std::vector<move>& moves);
  window_read read_of(int rank, std::size_t array, std::int64_t begin, std::span<std::byte> into);
  void finish(window_read& x);
  void fetch_here(stream& stream, const move& x);
  void fetch_mapped(stream& stream, const move& x, const std::byte* from);

  std::shared_ptr<window_group> group_;
  int rank_;
  std::uint64_t round_ = 0;           ///< round of the offers
  std::vector<window_offer> offers_;  ///< per rank, for this call
  std::exception_ptr failure_ = nullptr;
};

}  // namespace troupe::runtime

// A rank's end of a group whose ranks live in several processes.

#pragma once

#include "runtime/collective/window/group.hpp"

#include <exception>

namespace troupe::runtime {

/// Of host memory: throws input_error on a stream of a device. Sums have the bits of local_group's.
///
/// Each call is two or three meetings. At the first everybody says what it has come for and where
/// its arrays are; then each reads what it needs and adds it up in rank order, a piece at a time;
/// at the last everybody has read. What goes wrong in a call ends the membership: from then on it
/// is thrown again, until the generation ends.
class window_communicator final : public communicator {
 public:
  /// Joins. Throws what window_group::join does.
  window_communicator(std::shared_ptr<window_group> group, int rank, const cancel_token& until);
  ~window_communicator() override;
  window_communicator(const window_communicator&) = delete;
  window_communicator& operator=(const window_communicator&) = delete;

  axis along() const override { return group_->description().along; }
  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  bool maps_arrays() const override { return group_->maps_arrays(); }
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
  /// Bytes of an array of a rank, to be copied.
  struct move {
    int rank;
    std::size_t array;
    std::int64_t begin;
    void* to;
    std::int64_t bytes;
  };

  template <class Work>
  void carry_out(const collective_call& call, Work&& work);
  /// The first meeting of a call: everybody has come for the same thing.
  void meet(const collective_call& call, std::vector<window_array> arrays);
  /// Any other meeting.
  void meet() { group_->meet(rank_); }
  /// Sums elements [begin, end) of everybody's parts.
  void sum(stream& stream, dtype type, void* to, std::int64_t begin, std::int64_t end);
  void fetch(stream& stream, const std::vector<move>& moves);
  void fetch_distant(const std::vector<move>& moves);
  window_read read_of(int rank, std::size_t array, std::int64_t begin, std::span<std::byte> into);
  void finish(window_read& x);
  void fetch_here(stream& stream, const move& x);
  void fetch_mapped(stream& stream, const move& x, const std::byte* from);

  std::shared_ptr<window_group> group_;
  int rank_;
  std::uint64_t round_ = 0;           ///< of the offers
  std::vector<window_offer> offers_;  ///< of each rank, of this call
  std::exception_ptr failure_ = nullptr;
};

}  // namespace troupe::runtime

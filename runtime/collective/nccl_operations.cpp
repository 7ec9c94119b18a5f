#include "runtime/collective/nccl_rank.hpp"
#include "runtime/collective/offsets.hpp"
#include "runtime/collective/ordered_sum.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>

namespace troupe::runtime {

namespace {

using offsets = communicator::offsets;

bool equal_cuts(offsets ends) {
  const auto size = std::int64_t(ends.size());
  for (std::int64_t r = 0; r < size; ++r)
    if (ends[std::size_t(r)] * size != ends.back() * (r + 1))
      return false;
  return true;
}

}  // namespace

void nccl_rank::move(stream& stream,
                     const std::vector<nccl_send>& sends,
                     const std::vector<nccl_receive>& receives) {
  if (!sends.empty() || !receives.empty())
    enqueue(stream, [&](nccl_end& x) { x.exchange(stream.queue()->native(), sends, receives); });
}

// Receives this rank's cut from all ranks, a piece at a time, and adds it in rank order.
void nccl_rank::ordered_cut(
    stream& stream, dtype type, std::span<const void* const> parts, void* to, offsets ends) {
  const auto element = std::int64_t(size_of(type)), count = std::int64_t(parts.size());
  std::int64_t widest = 0;
  for (int r = 0; r < size_; ++r)
    widest = std::max(widest, size_of_cut(ends, r));
  if (widest == 0)
    return;
  const auto arrays = (size_ - 1) * count;
  const auto step = arrays == 0 ? widest
                                : std::clamp(group_->terms().scratch / (arrays * element) / 64 * 64,
                                             std::int64_t{64},
                                             widest);
  const auto stride = (step * element + 255) / 256 * 256;
  const auto arrived = arrays == 0 ? memory_block() : stream.allocate(std::size_t(arrays * stride));
  for (std::int64_t done = 0; done < widest; done += step) {
    const auto length
        = [&](int r) { return std::clamp(size_of_cut(ends, r) - done, std::int64_t{0}, step); };
    std::vector<nccl_send> sends;
    std::vector<nccl_receive> receives;
    std::vector<const void*> sources;
    auto* room = arrived.get();
    for (int r = 0; r < size_; ++r)
      for (const auto* part : parts) {
        const auto* const theirs = at(part, (begin_of(ends, r) + done) * element);
        if (r == rank_) {
          sources.push_back(theirs);
          continue;
        }
        if (length(r) > 0)
          sends.push_back({theirs, length(r) * element, r});
        if (length(rank_) > 0)
          receives.push_back({room, length(rank_) * element, r});
        sources.push_back(room);
        room += stride;
      }
    move(stream, sends, receives);
    ordered_sum(stream, type, at(to, done * element), sources, length(rank_));
  }
}

/// Gathers the cuts of `data` from all ranks in place.
void nccl_rank::gather_cuts(stream& stream, void* data, std::int64_t bytes_each, offsets ends) {
  const auto place = [&](int r) { return at(data, begin_of(ends, r) * bytes_each); };
  if (equal_cuts(ends))
    return enqueue(stream, [&](nccl_end& x) {
      x.all_gather(
          stream.queue()->native(), place(rank_), data, size_of_cut(ends, rank_) * bytes_each);
    });
  std::vector<nccl_send> sends;
  std::vector<nccl_receive> receives;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_)
      continue;
    if (size_of_cut(ends, rank_) > 0)
      sends.push_back({place(rank_), size_of_cut(ends, rank_) * bytes_each, r});
    if (size_of_cut(ends, r) > 0)
      receives.push_back({place(r), size_of_cut(ends, r) * bytes_each, r});
  }
  move(stream, sends, receives);
}

void nccl_rank::all_reduce_sum(
    stream& stream, dtype type, std::span<const void* const> parts, void* to, std::int64_t n) {
  require_summable(type);
  prepare(stream);
  group_->enter(rank_, collective_call::all_reduce_sum(type, parts.size(), n));
  if (n == 0)
    return;
  if (size_ == 1)
    return ordered_sum(stream, type, to, parts, n);
  if (mode() == collective_mode::ordered) {
    const auto ends = slices(n, size_);
    const auto element = std::int64_t(size_of(type));
    ordered_cut(stream, type, parts, at(to, begin_of(ends, rank_) * element), ends);
    return gather_cuts(stream, to, element, ends);
  }
  const void* from = parts[0];
  if (parts.size() > 1) {
    ordered_sum(stream, type, to, parts, n);
    from = to;
  }
  enqueue(stream,
          [&](nccl_end& x) { x.all_reduce_sum(stream.queue()->native(), type, from, to, n); });
}

void nccl_rank::reduce_scatter_sum(
    stream& stream, dtype type, std::span<const void* const> parts, void* to, offsets ends) {
  require_summable(type);
  prepare(stream);
  group_->enter(rank_, collective_call::reduce_scatter_sum(type, parts.size(), ends));
  const auto n = ends.back();
  if (n == 0)
    return;
  if (size_ == 1 || mode() == collective_mode::ordered)
    return ordered_cut(stream, type, parts, to, ends);
  const void* from = parts[0];
  memory_block own;
  if (parts.size() > 1) {
    own = stream.allocate(std::size_t(n) * size_of(type));
    ordered_sum(stream, type, own.get(), parts, n);
    from = own.get();
  }
  enqueue(stream, [&](nccl_end& x) {
    if (equal_cuts(ends))
      x.reduce_scatter_sum(stream.queue()->native(), type, from, to, n / size_);
    else
      x.reduce_cuts(stream.queue()->native(), type, from, to, ends);
  });
}

void nccl_rank::all_gather(stream& stream, const void* mine, void* to, offsets ends) {
  prepare(stream);
  group_->enter(rank_, collective_call::all_gather(ends));
  if (ends.back() == 0)
    return;
  copy_unless_same(stream, at(to, begin_of(ends, rank_)), mine, size_of_cut(ends, rank_));
  if (size_ > 1)
    gather_cuts(stream, to, 1, ends);
}

void nccl_rank::all_to_all(
    stream& stream, const void* from, offsets from_ends, void* to, offsets to_ends) {
  prepare(stream);
  group_->enter(rank_, collective_call::all_to_all(from_ends), to_ends);
  std::vector<nccl_send> sends;
  std::vector<nccl_receive> receives;
  for (int r = 0; r < size_; ++r) {
    const auto* const theirs = at(from, begin_of(from_ends, r));
    auto* const here = at(to, begin_of(to_ends, r));
    if (r == rank_) {
      copy_unless_same(stream, here, theirs, size_of_cut(to_ends, r));
      continue;
    }
    if (size_of_cut(from_ends, r) > 0)
      sends.push_back({theirs, size_of_cut(from_ends, r), r});
    if (size_of_cut(to_ends, r) > 0)
      receives.push_back({here, size_of_cut(to_ends, r), r});
  }
  move(stream, sends, receives);
}

void nccl_rank::broadcast(stream& stream, void* data, std::int64_t bytes, int root) {
  prepare(stream);
  group_->enter(rank_, collective_call::broadcast(bytes, root));
  if (bytes > 0 && size_ > 1)
    enqueue(stream, [&](nccl_end& x) { x.broadcast(stream.queue()->native(), data, bytes, root); });
}

void nccl_rank::exchange(stream& stream,
                         std::span<const nccl_send> sends,
                         std::span<const nccl_receive> receives) {
  const auto is_peer = [&](int r) { return r >= 0 && r < size_ && r != rank_; };
  ensure(std::ranges::all_of(sends, is_peer, &nccl_send::to)
             && std::ranges::all_of(receives, is_peer, &nccl_receive::from),
         "COLLECTIVE-7: transfers are between two ranks of a group");
  prepare(stream);
  group_->enter(rank_, sends, receives);
  if (!sends.empty() || !receives.empty())
    enqueue(stream, [&](nccl_end& x) { x.exchange(stream.queue()->native(), sends, receives); });
}

}  // namespace troupe::runtime
